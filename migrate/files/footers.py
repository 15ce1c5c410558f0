"""Which footers are read, and which footer describes a file: a file's rows never depend on another file's footer unless
the metadata proves that both are alike.

A file that the metadata proves to be the table's own (``provenance``) may be described by footers of its group, which
is the files of one writer and commit. Every other file is sampled, and so are the first files of a table, a group whose
footers do not agree, and all files of a writer whose footers contradict the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.datafile import FileField
from deltaberg.migrate.files.file_layout import UNREADABLE, FileLayout, LayoutReader, SeenFile, in_parallel
from deltaberg.migrate.files.footer_count import FooterCount
from deltaberg.migrate.files.footer_memory import FooterMemory
from deltaberg.migrate.files.provenance import Contradicts, Provenance, nothing_contradicts
from deltaberg.storage import Storage
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding

ONE_BY_ONE: Final = 256
"""The number of a table's files that are sampled one by one; the layouts of a smaller table are known exactly."""

_AT_ONCE: Final = 2048
_FEW: Final = 4096
_MORE_FROM: Final = 10
"""Two footers of a group of up to 2**10 files are read, one more whenever it doubles."""

Indices = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]
Progress = Callable[[str, int, int], None]


def silent(stage: str, done: int, total: int) -> None:
    """No progress wanted."""


@dataclass(slots=True, kw_only=True)
class _Group:
    """Own files of one writer and commit. layout: of its first footer; None before that is read."""

    writer: str
    layout: int | None = None
    files: int = 0
    sampled: int = 0

    def wanted(self) -> int:
        """How many of its footers to read."""
        return min(self.files, 2) + max(0, self.files.bit_length() - _MORE_FROM)


class FooterSampler:
    """Layouts of a table's files, sampled while its files stream by, and kept for the second pass."""

    def __init__(
        self,
        storage: Storage,
        *,
        deep: bool,
        one_by_one: int = ONE_BY_ONE,
        contradicts: Contradicts = nothing_contradicts,
        distrusted: frozenset[str] = frozenset(),
        memory: FooterMemory | None = None,
        progress: Progress = silent,
    ) -> None:
        """deep: every file is sampled; else the first ``one_by_one``, those that are not the table's own, and some of
        each group. contradicts: whether a layout cannot be that of an own file. distrusted: writers whose files are all
        sampled. memory: of earlier runs. progress: called for footers that are read one by one.
        """
        self._storage = storage
        self.deep = deep
        self.one_by_one = one_by_one
        self.layout: list[FileLayout] = []
        self.unreadable: dict[str, str] = {}
        self.miscounted: dict[str, str] = {}
        self.count = FooterCount()
        self._contradicts = contradicts
        self._memory = memory
        self._progress = progress
        self._reader = LayoutReader(storage)
        self._seen_one_by_one = 0
        self._of_location: dict[str, int] = {}
        self._uncounted: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        self._mixed: set[str] = set()
        self._distrusted = set(distrusted)
        self._of_writer: dict[str, set[int]] = {}
        self._index_of: dict[FileLayout, int] = {}
        self._doubts: set[str] = set()
        self._files = self._alone = 0
        self._settled = False
        self._sought: dict[str, None] = {}

    def __getstate__(self) -> dict[str, object]:
        """Another process uses what was found, and remembers nothing."""
        return {**vars(self), "_memory": None, "_progress": silent}

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

    def passes(self) -> Iterator[None]:
        """Sample all files once in each pass, and forget the results of the pass before: footers that were read last
        raised doubts about files that had been described by others. Nearly always there is one pass.
        """
        while True:
            self._begin()
            yield
            if not self._settle():
                return

    def judged(self) -> frozenset[str]:
        """The writers to distrust: also those whose footers cannot be told apart by the time of their files."""
        mixed = {
            writer
            for writer, places in self._of_writer.items()
            if any_conflict(frozenset(self.layout[place] for place in places))
        }
        return frozenset(self._distrusted | mixed)

    def without_files(self) -> FooterSampler:
        """The layouts, the counts and what was learnt of writers, for ``merge``; small however many files were seen."""
        summary = FooterSampler(self._storage, deep=self.deep)
        summary.merge(self)
        return summary

    def merge(self, other: FooterSampler) -> list[int]:
        """Add what another survey saw of other files; the place in ``layout`` of this one for each of its layouts."""
        self.unreadable.update(other.unreadable)
        self.miscounted.update(other.miscounted)
        self.count = self.count.plus(other.count)
        places = [self._interned(UNREADABLE if each == UNREADABLE else each) for each in other.layout]
        for writer, theirs in other._of_writer.items():
            self._of_writer.setdefault(writer, set()).update(places[place] for place in theirs)
        self._distrusted |= other._distrusted
        return places

    def note_unreadable(self, location: str, trouble: str) -> None:
        """Note a file that another process failed to read."""
        self.unreadable[location] = trouble

    def rows_of(self, location: str) -> int | None:
        """The rows of a file whose metadata does not state them, where its footer was read here."""
        return self._uncounted.get(location)

    def check_exists(self, locations: Sequence[str]) -> None:
        """See whether files without a footer to read are there: the first of a table, or all of them on request."""
        unseen = [location for location in dict.fromkeys(locations) if location not in self._sought]
        if not self.deep:
            unseen = unseen[: max(0, self.one_by_one - len(self._sought))]
        self._sought.update(dict.fromkeys(unseen))
        for location, there in zip(unseen, in_parallel(self._storage.exists, unseen), strict=True):
            if not there:
                self.note_unreadable(location, "no such file")

    def observe(
        self,
        locations: pa.Array,
        formats: pa.Array,
        record_counts: pa.Array,
        sizes: pa.Array,
        provenance: Callable[[], Provenance],
    ) -> Indices:
        """For every file of a batch, the index of its layout in ``layout``. Reads footers of files that it has not
        seen.

        locations: where the files are. formats: ``parquet`` ...; the others have no footer that matters. record_counts:
        rows by the metadata, null where it does not state them; sampled files are compared. provenance: of the same
        files; asked only where some of them need not be sampled.
        """
        result = np.full(len(locations), -1, dtype=np.int32)
        batch = _Batch(locations=locations, record_counts=record_counts, sizes=sizes)
        self._recall(locations, result)
        recalled = int((result >= 0).sum())
        self._other_formats(locations, formats, result)
        unknown = np.flatnonzero(result < 0)
        self._files += recalled + len(unknown)
        self._alone += recalled
        budget = len(unknown) if self.deep else max(0, self.one_by_one - self._seen_one_by_one)
        first, rest = unknown[:budget], unknown[budget:]
        self._seen_one_by_one += len(first)
        if len(rest):
            found = provenance()
            self._doubts.update(found.doubts)
            alone = np.array(~found.own[rest])
            if self._distrusted or self._mixed:
                alone |= self._is_doubted(found, rest)
            first = np.concatenate((first, rest[alone]))
            self._by_group(batch, found, rest[~alone], result)
        if len(first):
            self._alone += len(first)
            result[first] = self._read(batch, first)
        return result

    def _recall(self, locations: pa.Array, result: Indices) -> None:
        """The layouts of files that were sampled one by one before."""
        if len(self._of_location) > _FEW:
            place = self._of_location
            result[:] = [place.get(each, -1) for each in locations.to_pylist()]
        elif self._of_location:
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
                result[here.to_numpy(zero_copy_only=False)] = self._interned(FileLayout(format=name))
                these = locations.filter(here)
                self.check_exists((these if self.deep else these.slice(0, ONE_BY_ONE)).to_pylist())

    # Groups

    def _is_doubted(self, found: Provenance, rows: Rows) -> npt.NDArray[np.bool_]:
        kept = pa.array(rows)
        doubted = np.zeros(len(rows), dtype=np.bool_)
        for texts, doubtful in ((found.writers, self._distrusted), (found.groups, self._mixed)):
            if doubtful:
                among = pa.array(sorted(doubtful), pa.string())
                doubted |= np.asarray(pc.is_in(texts.take(kept), value_set=among))
        return doubted

    def _by_group(self, batch: _Batch, found: Provenance, rows: Rows, result: Indices) -> None:
        if not len(rows):
            return
        encoded = found.groups.take(pa.array(rows)).dictionary_encode()
        of_row = encoded.indices.to_numpy()
        order = np.argsort(of_row, kind="stable")
        starts = np.searchsorted(of_row[order], np.arange(len(encoded.dictionary) + 1))
        groups: list[_Group] = []
        chosen: list[Rows] = []
        for place, name in enumerate(encoded.dictionary.to_pylist()):
            members = rows[order[starts[place] : starts[place + 1]]]
            group = self._groups.get(name)
            if group is None:
                group = self._groups[name] = _Group(writer=found.writers[int(members[0])].as_py())
            groups.append(group)
            if not self._settled or group.layout is None:
                group.files += len(members)
                wanted = min(group.wanted() - group.sampled, len(members))
                if wanted > 0:
                    chosen.append(members[np.linspace(0, len(members) - 1, wanted).astype(np.int64)])
                    group.sampled += wanted
                    continue
            chosen.append(members[:0])
        every = np.concatenate(chosen)
        seen = self._read(batch, every) if len(every) else np.zeros(0, dtype=np.int32)
        self._alone += len(every)
        at = 0
        for name, group, picked in zip(encoded.dictionary.to_pylist(), groups, chosen, strict=True):
            if len(picked):
                self._weigh(name, group, seen[at : at + len(picked)], exact=bool(found.exact[picked].all()))
                at += len(picked)
        result[rows] = np.array([group.layout for group in groups], dtype=np.int32)[of_row]
        result[every] = seen

    def _weigh(self, name: str, group: _Group, seen: Indices, *, exact: bool) -> None:
        """Judge a group, and its writer, by the footers that were read."""
        found = set(seen.tolist())
        if group.layout is None:
            group.layout = int(seen[0])
        if found != {group.layout}:
            self._mixed.add(name)
        if not exact:
            self._of_writer.setdefault(group.writer, set()).update(found)
        if any(self._contradicts(self.layout[each]) for each in found):
            self._distrusted.add(group.writer)

    def _begin(self) -> None:
        self._settled = False
        for group in self._groups.values():
            group.files = 0  # those whose footers were read are recalled
        self._doubts.clear()
        self._files = self._alone = 0
        self._doubted = len(self._mixed), len(self._distrusted)

    def _settle(self) -> bool:
        """The end of a pass; whether another one is needed."""
        self._distrusted |= self.judged()
        again = (len(self._mixed), len(self._distrusted)) != self._doubted
        self._settled = True
        doubts = {*self._doubts, *(("of writers whose footers differ",) if self._mixed or self._distrusted else ())}
        unread = self._files - self._alone
        self.count = replace(self.count, files=self._files, unread=unread, doubts=frozenset(doubts))
        if self._memory is not None and not again:
            self._memory.save()
        return again

    # Footers

    def _read(self, batch: _Batch, rows: Rows) -> Indices:
        found = np.full(len(rows), -1, dtype=np.int32)
        for start in range(0, len(rows), _AT_ONCE):
            some = pa.array(rows[start : start + _AT_ONCE])
            found[start : start + _AT_ONCE] = self._read_some(
                batch.locations.take(some).to_pylist(),
                batch.record_counts.take(some).to_pylist(),
                batch.sizes.take(some).to_pylist(),
            )
        return found

    def _read_some(
        self, locations: Sequence[str], stated: Sequence[int | None], sizes: Sequence[int | None]
    ) -> list[int]:
        seen = self._looked_at(locations, sizes)
        for location, file, rows in zip(locations, seen, stated, strict=True):
            if file.trouble is not None:
                self.unreadable[location] = file.trouble
            elif rows is None:
                self._uncounted[location] = file.rows or 0
            elif rows != file.rows:
                self.miscounted[location] = f"the metadata states {rows} rows, the file has {file.rows}"
        # Files of equal columns mostly share their layout: each object is hashed once.
        distinct = {id(file.layout): file.layout for file in seen}
        place_of = {key: self._interned(layout) for key, layout in distinct.items()}
        places = [place_of[id(file.layout)] for file in seen]
        self._of_location.update(zip(locations, places, strict=True))
        self._progress("look at files", len(self._of_location), 0)
        return places

    def _looked_at(self, locations: Sequence[str], sizes: Sequence[int | None]) -> Sequence[SeenFile]:
        memory = self._memory
        # The first files cost less to read than to remember.
        if memory is None or len(self._of_location) + len(locations) <= ONE_BY_ONE:
            self.count = self.count.more(read=len(locations))
            return self._reader.sample_all(locations)
        known = memory.recall(locations, sizes)
        unread = [location for location, seen in zip(locations, known, strict=True) if seen is None]
        self.count = self.count.more(read=len(unread), remembered=len(locations) - len(unread))
        read = dict(zip(unread, self._reader.sample_all(unread), strict=True))
        memory.learn(read)
        return [read[location] if seen is None else seen for location, seen in zip(locations, known, strict=True)]

    def _interned(self, layout: FileLayout) -> int:
        index = self._index_of.get(layout)
        if index is None:
            index = self._index_of[layout] = len(self.layout)
            self.layout.append(layout)
        return index


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    locations: pa.Array
    record_counts: pa.Array
    sizes: pa.Array


def any_conflict(layout: frozenset[FileLayout]) -> bool:
    """Whether files hold one column in several ways: under another id or type, as INT96, in another calendar or list form.

    Columns that only some of them have do not count: columns come and go.
    """
    known: dict[tuple[str, ...], object] = {}
    for each in layout:
        for path, form in _forms(each.fields or (), (), each):
            if known.setdefault(path, form) != form:
                return True
    return False


def _forms(
    fields: Sequence[FileField], above: tuple[str, ...], layout: FileLayout
) -> Iterator[tuple[tuple[str, ...], object]]:
    for each in fields:
        path = (*above, each.name)
        kind = None if each.children else each.type
        is_int96 = not each.children and each.first_leaf in layout.int96
        yield (
            path,
            (
                kind,
                each.field_id,
                is_int96,
                each.calendar,
                ".".join(path) in layout.two_level_lists,
                path[0] in layout.unusual_maps,
            ),
        )
        yield from _forms(each.children, path, layout)
