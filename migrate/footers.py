"""What only the footers of data files show, sampled: names, field ids, physical types, legacy forms.

One file a writer and commit stands for the rest of them; the first files of a table, or all of them on request, are
looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import DataFileError, FileField, ParquetSource, ReadField
from deltaberg.datafile.file_schema import has_field_ids, walk
from deltaberg.storage import NotFound, Storage
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding

ONE_BY_ONE = 256
"""So many files of a table are looked at one by one; a table of no more is known for certain."""

_THREADS = 8

Indices = npt.NDArray[np.int32]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What the files of one group have in common.

    fields: the columns as the files have them; None for formats other than Parquet. int96: leaves stored as INT96.
    two_level_lists: dotted names of lists in Parquet's legacy form. unusual_maps: top-level columns with maps whose repeated
    group is not called ``key_value``.
    """

    format: str
    fields: tuple[FileField, ...] | None = None
    int96: frozenset[int] = frozenset()
    two_level_lists: tuple[str, ...] = ()
    unusual_maps: tuple[str, ...] = ()

    @property
    def has_ids(self) -> bool:
        return self.fields is not None and has_field_ids(self.fields)

    @property
    def lacks_ids(self) -> bool:
        """Whether some column has no field id: PyIceberg then reads the whole file by the table's name mapping."""
        return self.fields is not None and any(_lacks_id(each) for each in self.fields)

    @property
    def hybrid_calendar(self) -> bool:
        """Whether some dates or instants are counted in the hybrid calendar."""
        return self.fields is not None and any(each.calendar is not None for each in walk(self.fields))


def _lacks_id(field: FileField) -> bool:
    """Parts of lists, maps and variants do not count: many writers leave those out."""
    if field.field_id is None:
        return True
    plain = pa.types.is_struct(field.type) and {child.name for child in field.children} != {"metadata", "value"}
    return plain and any(_lacks_id(child) for child in field.children)


UNREADABLE = FileFacts(format="unreadable")
"""What is known of a file that is not there or is damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """One file that was looked at. rows: as its footer has them. trouble: why it cannot be read."""

    facts: FileFacts
    rows: int | None
    trouble: str | None = None


def look_at(storage: Storage, location: str) -> SeenFile:
    """One Parquet file; one that is not there or is damaged is UNREADABLE. Raises StorageError for all other trouble."""
    try:
        return read_facts(storage, location)
    except (NotFound, DataFileError) as error:
        return SeenFile(facts=UNREADABLE, rows=None, trouble=str(error))


def read_facts(storage: Storage, location: str) -> SeenFile:
    """The facts of one Parquet file. Raises DataFileError, StorageError."""
    with ParquetSource(storage, location) as source:
        leaves = enumerate(source.footer.schema.leaves())
        stored = [number for number, (leaf, _) in leaves if leaf.physical_type == "INT96"]
        facts = FileFacts(
            format="parquet",
            fields=tuple(_with_instants(each, frozenset(stored)) for each in source.fields),
            int96=frozenset(stored),
            two_level_lists=tuple(source.footer.schema.two_level_lists()),
            unusual_maps=tuple(each.name for each in source.footer.schema.children if each.has_unusual_map),
        )
        return SeenFile(facts=facts, rows=source.num_rows)


def _with_instants(field: FileField, int96: frozenset[int]) -> FileField:
    """INT96 leaves typed as what they are: instants, though Arrow reads them without a zone."""
    if field.children:
        return replace(field, children=tuple(_with_instants(child, int96) for child in field.children))
    return replace(field, type=pa.timestamp("us", tz="UTC")) if field.first_leaf in int96 else field


def look_at_all(storage: Storage, locations: Sequence[str]) -> list[SeenFile]:
    """``look_at`` for many, in the order given."""
    return in_parallel(lambda location: look_at(storage, location), locations)


def differs_from_constant(
    storage: Storage, locations: Sequence[str], name: str, values: pa.Array
) -> npt.NDArray[np.bool_]:
    """For which files a column holds anything but one value; the column is read, the others are not.

    locations: Parquet files. name: of a top-level column. values: what each file should hold throughout, null for null.
    NaN equals NaN and -0.0 differs from 0.0.
    """
    wanted = dict(zip(locations, values, strict=True))

    def differs(location: str) -> bool:
        column = ReadField(name=name, type=values.type, physical_name=name)
        with ParquetSource(storage, location) as source:
            try:
                return any(
                    not _all_equal(batch.column(0), wanted[location])
                    for batch in source.iter_batches([column], match="name")
                )
            except DataFileError:
                return True  # the column does not even read as the declared type

    return np.array(in_parallel(differs, locations), dtype=bool)


def _all_equal(values: pa.Array, wanted: pa.Scalar) -> bool:
    if not wanted.is_valid:
        return bool(values.null_count == len(values))
    if values.null_count:
        return False
    if pa.types.is_floating(values.type):
        bits = pa.int32() if values.type.bit_width == 32 else pa.int64()
        equal = pc.equal(values.view(bits), pa.array([wanted.as_py()], values.type).view(bits)[0])
        nan = pc.and_(pc.is_nan(values), pc.is_nan(wanted))
        return bool(pc.all(pc.or_(equal, nan), min_count=0).as_py())
    return bool(pc.all(pc.equal(values, wanted), min_count=0).as_py())


def in_parallel(work: Callable[[str], T], locations: Sequence[str]) -> list[T]:
    """The results in order; the first failure in that order is raised."""
    if len(locations) <= 1:
        return [work(location) for location in locations]
    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return list(pool.map(work, locations))


class FooterSurvey:
    """Facts of a table's files, found while its files stream by; kept for the second time that they do."""

    def __init__(self, storage: Storage, *, deep: bool, one_by_one: int = ONE_BY_ONE) -> None:
        """deep: every file is looked at; else the first ``one_by_one``, and one of each group."""
        self._storage = storage
        self.deep = deep
        self.one_by_one = one_by_one
        self._seen_one_by_one = 0
        self._of_location: dict[str, int] = {}
        self._of_group: dict[str, int] = {}
        self._index_of: dict[FileFacts, int] = {}
        self.facts: list[FileFacts] = []
        self.footers_read = 0
        self.unreadable: dict[str, str] = {}
        self.miscounted: dict[str, str] = {}
        self._sought: dict[str, None] = {}

    def findings(self) -> list[Finding]:
        """Files that cannot be read, and files whose rows are not as many as the metadata states; the first one is named."""
        return [
            Finding(code=code, what=next(iter(files)), detail=next(iter(files.values())), files=len(files))
            for code, files in (
                (codes.FILE_UNREADABLE, self.unreadable),
                (codes.ROW_COUNT_DIFFERS, self.miscounted),
            )
            if files
        ]

    def absorb(
        self, facts: Sequence[FileFacts], unreadable: Mapping[str, str], miscounted: Mapping[str, str]
    ) -> list[int]:
        """Take in what another survey found; where in ``facts`` of this one each of its facts is now."""
        self.unreadable.update(unreadable)
        self.miscounted.update(miscounted)
        return [self._interned(UNREADABLE if each == UNREADABLE else each) for each in facts]

    def note_unreadable(self, location: str, trouble: str) -> None:
        """A file that somebody else failed to read."""
        self.unreadable[location] = trouble

    def look_for(self, locations: Sequence[str]) -> None:
        """See whether files without a footer to read are there: the first of a table, or all of them on request."""
        unseen = [location for location in dict.fromkeys(locations) if location not in self._sought]
        if not self.deep:
            unseen = unseen[: max(0, self.one_by_one - len(self._sought))]
        self._sought.update(dict.fromkeys(unseen))
        for location, there in zip(unseen, in_parallel(self._storage.exists, unseen), strict=True):
            if not there:
                self.note_unreadable(location, "no such file")

    def observe(self, locations: pa.Array, formats: pa.Array, groups: pa.Array, record_counts: pa.Array) -> Indices:
        """For every file of a batch, which of ``facts`` describes it. Reads footers of what it has not seen.

        locations: where the files are. formats: ``parquet`` ...; the others have no footer that matters.
        groups: a text that files of one writer and commit share. record_counts: rows by the metadata, null where it does
        not say; the files that are looked at are compared.
        """
        rows = len(locations)
        result = np.full(rows, -1, dtype=np.int32)
        self._recall(locations, result)
        self._other_formats(locations, formats, result)
        budget = rows if self.deep else max(0, self.one_by_one - self._seen_one_by_one)
        unknown = np.flatnonzero(result < 0)
        one_by_one = unknown[:budget]
        if len(one_by_one):
            self._seen_one_by_one += len(one_by_one)
            chosen = locations.take(pa.array(one_by_one)).to_pylist()
            found = self._read(chosen, record_counts.take(pa.array(one_by_one)).to_pylist())
            result[one_by_one] = found
            self._of_location.update(zip(chosen, found, strict=True))
        rest = unknown[budget:]
        if len(rest):
            kept = pa.array(rest)
            result[rest] = self._by_group(locations.take(kept), groups.take(kept), record_counts.take(kept))
        return result

    def _recall(self, locations: pa.Array, result: Indices) -> None:
        """Files that were looked at one by one before."""
        if not self._of_location:
            return
        known = pa.array(list(self._of_location), pa.string())
        place = pc.index_in(locations, value_set=known)
        hit = np.flatnonzero(place.is_valid().to_numpy(zero_copy_only=False))
        if len(hit):
            values = np.fromiter(self._of_location.values(), np.int32, len(self._of_location))
            result[hit] = values[place.take(pa.array(hit)).to_numpy()]

    def _other_formats(self, locations: pa.Array, formats: pa.Array, result: Indices) -> None:
        for name in pc.unique(formats).to_pylist():
            if name != "parquet":
                here = pc.equal(formats, name)
                result[here.to_numpy(zero_copy_only=False)] = self._interned(FileFacts(format=name))
                these = locations.filter(here)
                self.look_for((these if self.deep else these.slice(0, ONE_BY_ONE)).to_pylist())

    def _by_group(self, locations: pa.Array, groups: pa.Array, record_counts: pa.Array) -> Indices:
        encoded = groups.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy()
        first = np.full(len(names), -1, dtype=np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        unseen = [code for code, name in enumerate(names) if name not in self._of_group]
        if unseen:
            places = pa.array(first[unseen])
            found = self._read(locations.take(places).to_pylist(), record_counts.take(places).to_pylist())
            self._of_group.update(zip((names[code] for code in unseen), found, strict=True))
        facts: Indices = np.array([self._of_group[name] for name in names], dtype=np.int32)[codes]
        return facts

    def _read(self, locations: Sequence[str], stated: Sequence[int | None]) -> list[int]:
        self.footers_read += len(locations)
        seen = look_at_all(self._storage, locations)
        for location, file, rows in zip(locations, seen, stated, strict=True):
            if file.trouble is not None:
                self.unreadable[location] = file.trouble
            elif rows is not None and rows != file.rows:
                self.miscounted[location] = f"the metadata states {rows} rows, the file has {file.rows}"
        return [self._interned(file.facts) for file in seen]

    def _interned(self, facts: FileFacts) -> int:
        index = self._index_of.get(facts)
        if index is None:
            index = self._index_of[facts] = len(self.facts)
            self.facts.append(facts)
        return index


def name_pattern(locations: pa.Array) -> pa.Array:
    """File names without what differs from file to file: digits and hexadecimal runs."""
    names = pc.replace_substring_regex(locations, r"^.*/", "")
    return pc.replace_substring_regex(names, r"[0-9a-fA-F]{2,}|[0-9]", "#")
