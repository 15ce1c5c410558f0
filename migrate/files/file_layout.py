"""The layout of one data file, which its footer shows and its table's metadata does not: names, field ids, physical
types, legacy forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import DataFileError, FileField, ParquetSource, ReadField
from deltaberg.datafile.file_schema import has_field_ids, walk
from deltaberg.datafile.parquet.parquet import parquet_errors
from deltaberg.datafile.parquet.parquet_outline import FooterForm, outline_of, read_footer_bytes
from deltaberg.storage import NotFound, Storage

_THREADS: Final = 8
_REMOTE_THREADS: Final = 32
"""In a bucket a small read costs waiting, not work."""
_KNOWN_FORMS: Final = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLayout:
    """The layout that the files of one group share.

    fields: the columns as the files have them; None for formats other than Parquet. int96: leaves stored as INT96.
    two_level_lists: dotted names of lists in Parquet's legacy form. unusual_maps: top-level columns with maps whose
    repeated group is not called ``key_value``.
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


UNREADABLE = FileLayout(format="unreadable")
"""The layout of a file that is missing or damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """One file that was sampled. rows: by its footer. trouble: why it cannot be read."""

    layout: FileLayout
    rows: int | None
    trouble: str | None = None


def sample(storage: Storage, location: str) -> SeenFile:
    """One Parquet file; one that is not there or is damaged is UNREADABLE. Raises StorageError for all other trouble."""
    try:
        return read_layout(storage, location)
    except (NotFound, DataFileError) as error:
        return SeenFile(layout=UNREADABLE, rows=None, trouble=str(error))


def read_layout(storage: Storage, location: str) -> SeenFile:
    """The layout of one Parquet file. Raises DataFileError, StorageError."""
    with ParquetSource(storage, location) as source:
        leaves = enumerate(source.footer.schema.leaves())
        stored = [number for number, (leaf, _) in leaves if leaf.physical_type == "INT96"]
        layout = FileLayout(
            format="parquet",
            fields=tuple(_with_instants(each, frozenset(stored)) for each in source.fields),
            int96=frozenset(stored),
            two_level_lists=tuple(source.footer.schema.two_level_lists()),
            unusual_maps=tuple(each.name for each in source.footer.schema.children if each.has_unusual_map),
        )
        return SeenFile(layout=layout, rows=source.num_rows)


def _with_instants(field: FileField, int96: frozenset[int]) -> FileField:
    """INT96 leaves typed as what they are: instants, though Arrow reads them without a zone."""
    if field.children:
        return replace(field, children=tuple(_with_instants(child, int96) for child in field.children))
    return replace(field, type=pa.timestamp("us", tz="UTC")) if field.first_leaf in int96 else field


@dataclass(slots=True)
class LayoutReader:
    """Samples many files of a table; columns that were parsed once are recognised by the bytes of their footer."""

    storage: Storage
    threads: int | None = None
    _known: list[tuple[FooterForm, FileLayout]] = field(default_factory=list)

    def sample(self, location: str) -> SeenFile:
        """``sample`` of one file."""
        try:
            data = read_footer_bytes(self.storage, location)
            for form, layout in self._known:
                rows = form.rows_of(data)
                if rows is not None:
                    return SeenFile(layout=layout, rows=rows)
            return self._look_closer(location, data)
        except (NotFound, DataFileError) as error:
            return SeenFile(layout=UNREADABLE, rows=None, trouble=str(error))

    def sample_all(self, locations: Sequence[str]) -> list[SeenFile]:
        """The layouts of many files, in the order given."""
        threads = threads_for(self.storage, locations) if self.threads is None else self.threads
        return in_parallel(self.sample, locations, threads=threads)

    def _look_closer(self, location: str, data: bytes) -> SeenFile:
        """The layout of a file whose footer has an ending not seen before."""
        with parquet_errors(location):
            outline = outline_of(data)
        if outline.num_rows is not None:
            for form, layout in self._known:
                if form.has_columns_of(outline):
                    return SeenFile(layout=layout, rows=outline.num_rows)
        seen = read_layout(self.storage, location)
        with parquet_errors(location):
            own = FooterForm.of(data)
        if own is not None and outline.num_rows is not None:
            # Replaced as a whole: other threads go through the list meanwhile.
            self._known = [(own, seen.layout), *self._known[: _KNOWN_FORMS - 1]]
        return seen


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


def threads_for(storage: Storage, locations: Sequence[str]) -> int:
    """How many small files to read at once."""
    local = not locations or storage.resolve(locations[0]).startswith("/")
    return _THREADS if local else _REMOTE_THREADS


def in_parallel(work: Callable[[str], T], locations: Sequence[str], *, threads: int = _THREADS) -> list[T]:
    """The results in order; the first failure in that order is raised."""
    if len(locations) <= 1 or threads <= 1:
        return [work(location) for location in locations]
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return list(pool.map(work, locations))
