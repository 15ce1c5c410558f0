"""Avro container files as Arrow batches, many entries at a time.

An Avro block says how many entries it holds but not where each begins, and finding one entry after the other makes row
readers slow. Here an anchor helps: a required string of every entry (its file path) that starts with the same bytes
throughout. Wherever those bytes stand an entry may stand; all candidates are decoded at once, each from its anchor to
the end of its entry, and the part before the anchor from the place where the entry before it ended. The decode is
accepted only if the pieces join without gap into exactly the number of entries that the block promises, which makes it
the only possible decode. Otherwise (and for small blocks) entries are found by walking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa

from deltaberg.iceberg.avro.container import AvroBlock, AvroHeader, read_blocks, read_header, read_long
from deltaberg.iceberg.avro.cursors import Cursors, Positions
from deltaberg.iceberg.avro.nested import RecordReader, struct_array
from deltaberg.iceberg.avro.resolution import resolve_record
from deltaberg.iceberg.avro.schema import AvroRecord, parse_avro_schema, with_prefixed_fixed
from deltaberg.iceberg.avro.values import BytesReader, Reader
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.metadata.unpacked_size import UnpackLimit
from deltaberg.iceberg.schema.types import StructType

GROUP_BYTES: Final = 8 << 20
GROUP_ENTRIES: Final = 4096
"""A batch is what a group of blocks of about this many bytes or entries holds: the unit of memory, and as much as the
processor's caches hold while it is decoded."""

_LARGE: Final = 1 << 20
_FEW: Final = 24
_SAMPLE: Final = 8
_LEAST: Final = 4
_SHORT: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A required string field that helps to find entries; only speed depends on it.

    ``text``: the probable beginning of its values. ``next_id`` and ``next_values``: where the field after it has that
    id, its value probably is one of these in lower or upper case, which tells entries from look-alikes in statistics.
    """

    field_id: int
    text: bytes
    next_id: int
    next_values: tuple[bytes, ...]


def read_avro(
    data: bytes | memoryview,
    wanted: StructType,
    *,
    header: AvroHeader | None = None,
    anchor: Anchor | None = None,
    limit: UnpackLimit | None = None,
    prefixed: bool | None = None,
) -> Iterator[pa.StructArray]:
    """The records of a container file, typed ``arrow_type(wanted)``, fields found by id and absent ones null.

    ``header``: what ``read_header`` gave, where the caller has it. ``prefixed``: whether plain ``fixed`` values have a
    length before them (``with_prefixed_fixed``); None: the first reading that fits. ``limit``: as in ``read_blocks``.
    Raises CorruptMetadata naming the field.
    """
    header = read_header(data) if header is None else header
    readers = _record_readers(header.metadata["avro.schema"], wanted)
    if prefixed is not None:
        readers = readers[-1:] if prefixed else readers[:1]
    decoders = [_Decoder(each, wanted, anchor) for each in readers]
    groups = _groups(read_blocks(data, header, limit=limit))
    for blocks in groups if len(data) < _LARGE else _one_ahead(groups):
        yield from _decode_with(_Blocks.of(blocks), decoders)


def _decode_with(group: _Blocks, decoders: list[_Decoder]) -> Iterator[pa.StructArray]:
    """Decode a group by the first decoder that fits; it is tried first from now on."""
    if len(decoders) == 1:
        yield from _decode(group, decoders[0])
        return
    try:
        yield from list(_decode(group, decoders[0]))
    except CorruptMetadata as error:
        try:
            found = list(_decode(group, decoders[1]))
        except CorruptMetadata:
            raise error from None
        decoders.reverse()
        yield from found


@lru_cache(maxsize=64)
def _record_readers(schema: bytes, wanted: StructType) -> tuple[RecordReader, ...]:
    """The ways to read a file's records, by its schema first.

    A table's manifests mostly share one schema, and making a reader takes longer than reading a few entries.
    """
    parsed = parse_avro_schema(schema)
    if not isinstance(parsed, AvroRecord):
        raise CorruptMetadata("Cannot read Avro file: expected records", field="avro.schema")
    reader = resolve_record(parsed, wanted, "")
    prefixed = with_prefixed_fixed(parsed)
    if prefixed == parsed or not isinstance(prefixed, AvroRecord):
        return (reader,)
    return reader, resolve_record(prefixed, wanted, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """Some blocks one after the other: where each ends in ``cursors`` and how many entries it holds."""

    cursors: Cursors
    ends: Positions
    counts: Positions
    offset: int

    @classmethod
    def of(cls, blocks: list[AvroBlock]) -> _Blocks:
        return cls(
            cursors=Cursors([block.data for block in blocks]),
            ends=np.cumsum([len(block.data) for block in blocks], dtype=np.int64),
            counts=np.array([block.objects for block in blocks], dtype=np.int64),
            offset=blocks[0].offset,
        )

    @property
    def begins(self) -> Positions:
        return np.concatenate((np.zeros(1, dtype=np.int64), self.ends[:-1]))

    def misfit(self) -> CorruptMetadata:
        return CorruptMetadata(
            f"Cannot read Avro block at byte {self.offset}: its entries do not fill it exactly",
            field=f"byte {self.offset}",
        )


def _groups(blocks: Iterator[AvroBlock]) -> Iterator[list[AvroBlock]]:
    group: list[AvroBlock] = []
    size = count = 0
    for block in blocks:
        offset, objects, data = block
        length = len(data)
        if objects > length or (length and not objects):
            raise CorruptMetadata(
                f"Cannot read Avro block at byte {offset}: {objects} objects cannot stand in {length} bytes",
                field=f"byte {offset}",
            )
        if objects == 0:
            continue
        if group and (size + length > GROUP_BYTES or count + objects > GROUP_ENTRIES):
            yield group
            group, size, count = [], 0, 0
        group.append(block)
        size += length
        count += objects
    if group:
        yield group


def _one_ahead(groups: Iterator[list[AvroBlock]]) -> Iterator[list[AvroBlock]]:
    """The groups, each decompressed while the one before it is decoded."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="avro-blocks") as thread:
        coming = thread.submit(next, groups, None)
        while (group := coming.result()) is not None:
            coming = thread.submit(next, groups, None)
            yield group


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One field to read, laid out of the records around it; ``path`` None: it is stepped over."""

    reader: Reader
    path: tuple[int, ...] | None


class _Decoder:
    """Decodes a file's records, by their anchor where there is one."""

    def __init__(self, reader: RecordReader, wanted: StructType, anchor: Anchor | None) -> None:
        self.reader = reader
        self.anchored = None if anchor is None else _anchored_steps(reader, wanted, anchor)


class _AnchoredSteps:
    """An entry's steps before the anchor and from it on, and the texts that anchors were seen to start with."""

    def __init__(self, steps: list[_Step], at: int, anchor: Anchor, ends: tuple[int, ...] | None) -> None:
        self.head = tuple(steps[:at])
        self.tail = tuple(steps[at:])
        self.anchor = anchor
        self.next_words = ends
        self.text: bytes | None = None


def _anchored_steps(reader: RecordReader, wanted: StructType, anchor: Anchor) -> _AnchoredSteps | None:
    steps: list[_Step] = []
    ids: list[int | None] = []
    _lay_out(reader, wanted, anchor.field_id, (), steps, ids)
    if anchor.field_id not in ids:
        return None
    at = ids.index(anchor.field_id)
    if not isinstance(steps[at].reader, BytesReader):
        return None
    words = None
    if at + 1 < len(ids) and ids[at + 1] == anchor.next_id and isinstance(steps[at + 1].reader, BytesReader):
        # The length byte (zigzag: doubled) and the first three letters, which are compared in lower case.
        words = tuple(int.from_bytes(bytes([2 * len(v)]) + v[:3].lower(), "little") for v in anchor.next_values)
    return _AnchoredSteps(steps, at, anchor, words)


def _lay_out(
    reader: RecordReader,
    wanted: StructType,
    field_id: int,
    path: tuple[int, ...],
    steps: list[_Step],
    ids: list[int | None],
) -> None:
    """Lay out a record's fields as steps, opening the records that lead to the anchor."""
    for each, slot in zip(reader.fields, reader.slots, strict=True):
        nested = None if slot is None else wanted.fields[slot]
        here = None if slot is None else (*path, slot)
        if nested is not None and here is not None and isinstance(each, RecordReader):
            kind = nested.type
            if isinstance(kind, StructType) and any(inner.field_id == field_id for inner in kind.fields):
                _lay_out(each, kind, field_id, here, steps, ids)
                continue
        steps.append(_Step(reader=each, path=here))
        ids.append(None if nested is None else nested.field_id)


def _decode(group: _Blocks, decoder: _Decoder) -> Iterator[pa.StructArray]:
    reader, anchored = decoder.reader, decoder.anchored
    total = int(group.counts.sum())
    if total == len(group.counts):
        yield _read_from(group, group.begins, group.ends, reader)
        return
    if anchored is not None and total > _FEW:
        guessed = _guess(group, total, reader, anchored)
        if guessed is not None:
            yield guessed
            return
    starts = _walk(group, total, reader)
    for first in range(0, total, GROUP_ENTRIES):
        ends = starts[first + 1 : first + 1 + GROUP_ENTRIES]
        yield _read_from(group, starts[first : first + GROUP_ENTRIES][: len(ends)], ends, reader)


def _read_from(group: _Blocks, starts: Positions, ends: Positions, reader: RecordReader) -> pa.StructArray:
    records, found = reader.read(group.cursors, starts)
    if not np.array_equal(found, ends):
        raise group.misfit()
    return records


def _walk(group: _Blocks, total: int, reader: RecordReader) -> Positions:
    """The start of every entry and the end of the last, found by stepping over one after the other."""
    starts = np.empty(total + 1, dtype=np.int64)
    at = i = 0
    view = group.cursors.view
    for count, end in zip(group.counts.tolist(), group.ends.tolist(), strict=True):
        for _ in range(count):
            starts[i] = at
            i += 1
            at = reader.walk(view, at)
        if at != end:
            raise group.misfit()
    starts[i] = at
    return starts


def _guess(group: _Blocks, total: int, reader: RecordReader, anchored: _AnchoredSteps) -> pa.StructArray | None:
    """All entries of the group at once, or None when anchors do not account for every one of them."""
    try:
        texts = (anchored.text,) if anchored.text is not None else tuple(_texts(group, anchored))
        for text in texts:
            marks = _marks(group.cursors, text, anchored.next_words)
            records = _read_between(group, marks, reader, anchored) if len(marks) == total else None
            if records is not None:
                anchored.text = text
                return records
    except CorruptMetadata:
        # Perhaps only a candidate that is none: walking tells, and names the place of the damage if there is one.
        return None
    anchored.text = None
    return None


def _texts(group: _Blocks, anchored: _AnchoredSteps) -> Iterator[bytes]:
    """The texts that may begin an anchor, best first, judged by some entries at the start of blocks."""
    view = group.cursors.view
    begins = group.begins
    seen = []
    for begin in begins[np.linspace(0, len(begins) - 1, num=min(len(begins), _SAMPLE)).astype(np.int64)].tolist():
        at = begin
        for _ in range(1 if len(begins) >= _SAMPLE else int(group.counts.min(initial=_SAMPLE))):
            for step in anchored.head:
                at = step.reader.walk(view, at)
            size, start = read_long(view, at, "landmark")
            seen.append(bytes(view[start : start + size]))
            for step in anchored.tail:
                at = step.reader.walk(view, at)
    shared = _common_prefix(min(seen), max(seen))
    text = anchored.anchor.text
    if text and shared.startswith(text):
        yield text
    folder = shared[: shared.rfind(b"/") + 1]
    for each in (folder, shared[:_SHORT]):
        if len(each) >= _LEAST:
            yield each


def _common_prefix(first: bytes, last: bytes) -> bytes:
    size = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), None)
    return first[: min(len(first), len(last)) if size is None else size]


def _marks(cursors: Cursors, text: bytes, next_words: tuple[int, ...] | None) -> Positions:
    """Where an anchor's length prefix stands, for every place where its text may stand."""
    found = np.array([match.start() for match in re.finditer(re.escape(text), cursors.view)], dtype=np.int64)
    found = found[found > 0]
    content = cursors.bytes
    # The bytes of a varint but the last have their top bit set, and the field before ends with a byte that has not.
    second = (found > 1) & (content[found - 2] >= 0x80)
    third = second & (found > 2) & (content[found - 3] >= 0x80)
    marks: Positions = found - 1 - second - third
    sizes, starts = cursors.longs(marks, "landmark")
    fits = (starts == found) & (sizes >= len(text)) & (sizes <= cursors.size - starts)
    marks = marks[fits]
    ends = (starts + sizes)[fits]
    if next_words is None:
        return marks
    after = (cursors.words[ends] | np.uint64(0x20202000)) & np.uint64(0xFFFFFFFF)
    real = np.isin(after, np.array(next_words, dtype=np.uint64))
    return np.extract(real, marks)


def _read_between(
    group: _Blocks, marks: Positions, reader: RecordReader, anchored: _AnchoredSteps
) -> pa.StructArray | None:
    """The entries around given anchors, or None when they do not join without gap."""
    found: dict[tuple[int, ...], pa.Array] = {}
    stops = _read_steps(anchored.tail, group.cursors, marks, found)
    last = np.cumsum(group.counts) - 1
    if not np.array_equal(stops[last], group.ends):
        return None
    starts = np.concatenate((np.zeros(1, dtype=np.int64), stops[:-1]))
    if not np.array_equal(_read_steps(anchored.head, group.cursors, starts, found), marks):
        return None
    return _assemble(reader.type, found, (), len(marks))


def _read_steps(
    steps: tuple[_Step, ...], cursors: Cursors, at: Positions, found: dict[tuple[int, ...], pa.Array]
) -> Positions:
    for step in steps:
        if step.path is None:
            at = step.reader.skip(cursors, at)
        else:
            found[step.path], at = step.reader.read(cursors, at)
    return at


def _assemble(
    kind: pa.StructType, found: dict[tuple[int, ...], pa.Array], path: tuple[int, ...], length: int
) -> pa.StructArray:
    """Put the columns of laid-out records back into structs."""
    columns: dict[int, pa.Array] = {}
    for slot in range(kind.num_fields):
        here = (*path, slot)
        if here in found:
            columns[slot] = found[here]
        elif any(each[: len(here)] == here for each in found):
            columns[slot] = _assemble(kind.field(slot).type, found, here, length)
    return struct_array(kind, columns, length)
