"""Parquet's footer, read without trust: its schema tree and the counts of its column chunks.

pyarrow reads the columns, but it ends the process when it is asked for the metadata of some damaged chunks; the values
that deltaberg needs beforehand are read here. Numbers of fields and enums are those of parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.datafile.errors import DataFileError
from deltaberg.datafile.parquet.thrift_compact import Struct, ThriftError, read_struct
from deltaberg.redaction import told_beginning

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
UNKNOWN = -1

_TAIL_BYTES = 64 << 10
_MAX_LEAVES = 100_000
_MAX_NESTING = 100
_PHYSICAL_TYPES = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_REPEATED = 2
_CONVERTED_LIST, _LOGICAL_LIST = 3, 3
_CONVERTED_MAPS, _LOGICAL_MAP = (1, 2), 2

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """One element of the schema tree. ``physical_type`` is None for a group."""

    name: str
    physical_type: str | None
    is_repeated: bool
    is_list: bool
    is_map: bool
    children: tuple[SchemaNode, ...]

    def leaves(self, below_repeated: bool = False) -> Iterator[tuple[SchemaNode, bool]]:
        """The physical columns, each with whether it or a group above it repeats."""
        repeated = below_repeated or self.is_repeated
        if self.physical_type is not None:
            yield self, repeated
        for child in self.children:
            yield from child.leaves(repeated)

    def two_level_lists(self, path: tuple[str, ...] = ()) -> Iterator[str]:
        """Dotted paths of the lists below that have no group of their own; elements are called ``element``."""
        for child in self.children:
            if child.is_repeated:
                yield ".".join((*path, child.name))
                yield from child.two_level_lists((*path, child.name, "element"))
            else:
                yield from child._two_level_here((*path, child.name))

    def _two_level_here(self, path: tuple[str, ...]) -> Iterator[str]:
        wrapped = len(self.children) == 1 and self.children[0].is_repeated
        if self.is_list and wrapped:
            (repeated,) = self.children
            if self.is_two_level_list:
                yield ".".join(path)
                yield from repeated.two_level_lists((*path, "element"))
            else:
                yield from repeated.children[0]._two_level_here((*path, "element"))
        elif self.is_map and wrapped:
            for child, name in zip(self.children[0].children, ("key", "value"), strict=False):
                yield from child._two_level_here((*path, name))
        else:
            yield from self.two_level_lists(path)

    @property
    def has_unusual_map(self) -> bool:
        """Whether the repeated group of a map, here or below, is not called ``key_value``, as Parquet has it for writers."""
        unusual = self.is_map and any(child.is_repeated and child.name != "key_value" for child in self.children)
        return unusual or any(child.has_unusual_map for child in self.children)

    @property
    def is_two_level_list(self) -> bool:
        """Whether the repeated child is the element itself (Parquet's rules for lists without a group of their own)."""
        if not self.is_list or len(self.children) != 1:
            return False
        (repeated,) = self.children
        return (
            len(repeated.children) != 1
            or repeated.name in ("array", f"{self.name}_tuple")
            or repeated.children[0].is_repeated
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFooter:
    """One footer. Arrays have one entry per row group, or one row per row group and one column per leaf.

    ``null_counts`` is UNKNOWN where a chunk does not say. ``memory_sizes`` is the uncompressed size of a chunk, or the
    size of its strings where the footer tells it. ``metadata`` is the same footer for pyarrow's readers.
    """

    schema: SchemaNode
    num_rows: int
    row_group_rows: Counts
    value_counts: Counts
    null_counts: Counts
    compressed_sizes: Counts
    memory_sizes: Counts
    key_values: Mapping[bytes, bytes]
    created_by: str | None
    metadata: pq.FileMetaData


def read_footer(file: pa.NativeFile) -> ParquetFooter:
    """Read and check the footer of an open file. Raises DataFileError without the file's name, and Arrow's own."""
    data = footer_bytes(file)
    try:
        fields = read_struct(data)
        schema = _schema(_list(fields, 2))
        groups = _list(fields, 4)
        leaves = tuple(leaf for leaf, _ in schema.leaves())
        chunks = [_chunks(group, number, leaves) for number, group in enumerate(groups)]
        rows = np.array([_integer(group, 3) for group in groups], np.int64)
        num_rows = _integer(fields, 3)
        counts = np.array(chunks, np.int64).reshape(len(groups), len(leaves), 4)
        pairs = _list(fields, 5) if 5 in fields else []
        key_values = {_bytes(pair, 1): _bytes(pair, 2) if 2 in pair else b"" for pair in pairs}
        created_by = _bytes(fields, 6).decode("utf-8", "replace") if 6 in fields else None
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise DataFileError(f"Cannot read the file: its Parquet footer is damaged ({error})") from error
    if (rows < 0).any() or sum(rows.tolist()) != num_rows:
        raise DataFileError(
            f"Cannot read the file: its row groups have {rows.tolist()[:5]} rows (expected {num_rows} in all)"
        )
    if (counts[:, :, :3] < 0).any():
        raise DataFileError("Cannot read the file: a column chunk has a negative count or size")
    return ParquetFooter(
        schema=schema,
        num_rows=num_rows,
        row_group_rows=rows,
        value_counts=counts[:, :, 0],
        null_counts=counts[:, :, 3],
        compressed_sizes=counts[:, :, 2],
        memory_sizes=counts[:, :, 1],
        key_values=key_values,
        created_by=created_by,
        metadata=pq.read_metadata(pa.BufferReader(MAGIC + data + struct.pack("<I", len(data)) + MAGIC)),
    )


def footer_bytes(file: pa.NativeFile) -> bytes:
    """The Thrift bytes of the footer of an open file. Raises DataFileError without the file's name."""
    size = file.size()
    if size < 12:
        raise DataFileError(f"Cannot read the file: it has {size} bytes, which is no Parquet file")
    start = max(0, size - _TAIL_BYTES)
    file.seek(start)
    tail = file.read(size - start)
    magic = tail[-4:]
    if magic == ENCRYPTED_MAGIC:
        raise DataFileError("Cannot read the file: its Parquet footer is encrypted")
    if magic != MAGIC:
        raise DataFileError(
            f"Cannot read the file: it is no Parquet file (expected {MAGIC!r} at its end, found {told_beginning(magic)})"
        )
    (length,) = struct.unpack("<I", tail[-8:-4])
    if length > size - 12:
        raise DataFileError(f"Cannot read the file: its footer has {length} bytes (expected at most {size - 12})")
    if length + 8 > len(tail):
        file.seek(size - 8 - length)
        return bytes(file.read(length))
    return bytes(tail[-8 - length : -8])


def _schema(elements: list[Struct]) -> SchemaNode:
    if not elements or len(elements) > _MAX_LEAVES:
        raise ThriftError(f"its schema has {len(elements)} elements")
    root, used = _node(elements, 0, 0)
    if used != len(elements):
        raise ThriftError(f"{len(elements) - used} elements of its schema belong to no group")
    return root


def _node(elements: list[Struct], at: int, depth: int) -> tuple[SchemaNode, int]:
    if depth > _MAX_NESTING:
        raise ThriftError(f"its schema is nested more than {_MAX_NESTING} deep")
    element = elements[at]
    count = element.get(5, 0)
    if count < 0 or count > len(elements) - at:
        raise ThriftError(f"a group of its schema says that it has {count} fields")
    physical_type = None if count or 1 not in element else _physical_type(element)
    children: list[SchemaNode] = []
    at += 1
    for _ in range(count):
        if at >= len(elements):
            raise ThriftError("its schema ends in the middle of a group")
        child, at = _node(elements, at, depth + 1)
        children.append(child)
    node = SchemaNode(
        name=_bytes(element, 4).decode(),
        physical_type=physical_type,
        is_repeated=element.get(3) == _REPEATED,
        is_list=element.get(6) == _CONVERTED_LIST or _LOGICAL_LIST in (element.get(10) or {}),
        is_map=element.get(6) in _CONVERTED_MAPS or _LOGICAL_MAP in (element.get(10) or {}),
        children=tuple(children),
    )
    return node, at


def _chunks(group: Struct, number: int, leaves: tuple[SchemaNode, ...]) -> list[tuple[int, int, int, int]]:
    """Values, size in memory, compressed size and nulls of each chunk of a row group."""
    columns = _list(group, 1)
    if len(columns) != len(leaves):
        raise ThriftError(f"row group {number} has {len(columns)} columns (expected {len(leaves)})")
    found = []
    for column, leaf in zip(columns, leaves, strict=True):
        data = column.get(3)
        if data is None:
            raise ThriftError(f"column {leaf.name!r} of row group {number} has no metadata; it may be encrypted")
        if _physical_type(data) != leaf.physical_type:
            raise ThriftError(f"column {leaf.name!r} of row group {number} is not stored as {leaf.physical_type}")
        nulls = (data.get(12) or {}).get(3, UNKNOWN)
        values = _integer(data, 5)
        # A dictionary hides how long values are; newer writers state it in SizeStatistics.
        unencoded = max(_integer(data, 6), (data.get(16) or {}).get(1, 0))
        found.append((values, unencoded, _integer(data, 7), nulls if 0 <= nulls <= values else UNKNOWN))
    return found


def _physical_type(fields: Struct) -> str:
    kind = _integer(fields, 1)
    if not 0 <= kind < len(_PHYSICAL_TYPES):
        raise ThriftError(f"a column has the unknown physical type {kind}")
    return _PHYSICAL_TYPES[kind]


def _integer(fields: Struct, number: int) -> int:
    value = fields[number]
    if not isinstance(value, int):
        raise ThriftError(f"field {number} is no integer")
    return value


def _bytes(fields: Struct, number: int) -> bytes:
    value = fields[number]
    if not isinstance(value, bytes):
        raise ThriftError(f"field {number} is no string")
    return value


def _list(fields: Struct, number: int) -> list[Any]:
    value = fields[number]
    if not isinstance(value, list):
        raise ThriftError(f"field {number} is no list")
    return value
