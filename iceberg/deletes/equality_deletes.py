"""Equality deletes: rows deleted by the values of some columns (section "Equality Delete Files").

All delete files of one scope (a partition, or the whole table) become one set of keys per set of delete columns, each
key with the newest data sequence number at which it was deleted. A data row is deleted when its key is in the set with
a sequence number greater than that of its file, so one set serves every data file of the scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import error_context
from deltaberg.iceberg.deletes.delete_index import DeleteIndex, DeleteMatches, Scope
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.scan.content_file import ContentFile
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.tuple_keys import hash_keys, tuple_keys
from deltaberg.iceberg.schema.types import (
    GeographyType,
    GeometryType,
    NestedField,
    PrimitiveType,
    StructType,
)
from deltaberg.storage.protocol import Storage

_CACHED_KEYS = 20_000_000
_READ_COLUMNS = ["file_path", "file_format", "sequence_number", "equality_ids", "key_metadata"]
_NO_KEYS = (GeometryType, GeographyType)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteColumns:
    """The columns of an equality delete: ``fields`` are top-level fields cut down to one delete column each."""

    field_ids: tuple[int, ...]
    fields: tuple[NestedField, ...]

    def keys(self, columns: Sequence[pa.Array], length: int) -> pa.BinaryArray:
        """One key per row of arrays read by ``fields``; a null struct makes its leaf null."""
        return tuple_keys([_leaf(column) for column in columns], length)


class KeySet:
    """Deleted keys, each with the newest data sequence number of a delete of it."""

    def __init__(self, keys: Iterable[pa.BinaryArray], sequence_numbers: Iterable[npt.NDArray[np.int64]]) -> None:
        """One array of sequence numbers for each array of keys, equally long."""
        encoded = pa.chunked_array(list(keys), pa.binary()).cast(pa.large_binary()).combine_chunks().dictionary_encode()
        distinct: pa.LargeBinaryArray = encoded.dictionary
        numbers = np.concatenate([np.zeros(0, np.int64), *sequence_numbers])
        newest = np.full(len(distinct), np.iinfo(np.int64).min, dtype=np.int64)
        np.maximum.at(newest, encoded.indices.to_numpy(), numbers)
        hashes = hash_keys(distinct)
        order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[order]
        self._newest = newest[order]
        self._keys = distinct.take(pa.array(order))
        # Keys that share a hash stand in one run; a run rarely has more than one key.
        starts = np.flatnonzero(np.diff(self._hashes, prepend=~self._hashes[:1]) != 0)
        self._longest_run = int(np.diff(np.append(starts, len(order))).max(initial=0))

    def __len__(self) -> int:
        return len(self._keys)

    def deleted(self, keys: pa.BinaryArray, sequence_number: int) -> npt.NDArray[np.bool_]:
        """True for the rows of a file with a data sequence number whose key a newer delete holds."""
        result = np.zeros(len(keys), dtype=bool)
        hashes = hash_keys(keys)
        first = np.searchsorted(self._hashes, hashes)
        for step in range(self._longest_run):
            at = first + step
            candidate = at < len(self._hashes)
            candidate[candidate] = self._hashes[at[candidate]] == hashes[candidate]
            candidate[candidate] = self._newest[at[candidate]] > sequence_number
            rows = np.flatnonzero(candidate)
            if not len(rows):
                continue
            stored = self._keys.take(pa.array(at[rows]))
            same = pc.equal(keys.take(pa.array(rows)).cast(pa.large_binary()), stored)
            result[rows[np.asarray(same.to_numpy(zero_copy_only=False), dtype=bool)]] = True
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualityFilter:
    """The keys that delete rows of one data file, by one set of delete columns."""

    columns: DeleteColumns
    keys: KeySet
    sequence_number: int

    def deleted(self, columns: Sequence[pa.Array], length: int) -> npt.NDArray[np.bool_]:
        """True for deleted rows; the arrays are those of ``columns.fields``."""
        return self.keys.deleted(self.columns.keys(columns, length), self.sequence_number)


class EqualityDeletes:
    """The equality deletes of a snapshot, read when the first data file needs them.

    Recently used scopes stay in memory, up to a number of keys; the scope in use always fits.
    """

    def __init__(self, storage: Storage, metadata: TableMetadata, index: DeleteIndex) -> None:
        self._storage = storage
        self._metadata = metadata
        self._index = index
        self._columns: dict[tuple[int, ...], DeleteColumns] = {}
        self._scopes: dict[tuple[Scope, int], dict[tuple[int, ...], KeySet]] = {}

    def filters(self, matches: DeleteMatches, row: int, sequence_number: int) -> tuple[EqualityFilter, ...]:
        """The filters for the data file in a row of a matched batch. Raises CorruptMetadata, DataFileError."""
        found = []
        for scope, ranges in ((Scope.EQUALITY, matches.equality), (Scope.GLOBAL_EQUALITY, matches.global_equality)):
            if ranges.stop[row] <= ranges.start[row]:
                continue
            for field_ids, keys in self._scope(scope, int(ranges.start[row])).items():
                columns = self._delete_columns(field_ids)
                found.append(EqualityFilter(columns=columns, keys=keys, sequence_number=sequence_number))
        return tuple(found)

    def _scope(self, scope: Scope, place: int) -> dict[tuple[int, ...], KeySet]:
        start, stop = self._index.run(scope, place)
        key = (scope, start)
        sets = self._scopes.pop(key, None)
        if sets is None:
            sets = self._load(self._index.entries(scope).slice(start, stop - start))
            held = sum(map(len, sets.values()))
            while self._scopes and held + sum(len(k) for s in self._scopes.values() for k in s.values()) > _CACHED_KEYS:
                self._scopes.pop(next(iter(self._scopes)))
        self._scopes[key] = sets
        return sets

    def _load(self, entries: pa.Table) -> dict[tuple[int, ...], KeySet]:
        keys: dict[tuple[int, ...], list[pa.BinaryArray]] = {}
        numbers: dict[tuple[int, ...], list[npt.NDArray[np.int64]]] = {}
        for entry in entries.select(_READ_COLUMNS).to_pylist():
            field_ids = tuple(sorted(set(entry["equality_ids"])))
            with error_context(path=entry["file_path"]):
                columns = self._delete_columns(field_ids)
                for batch in read_delete_keys(self._storage, self._metadata, entry, columns):
                    keys.setdefault(field_ids, []).append(batch)
                    numbers.setdefault(field_ids, []).append(np.full(len(batch), entry["sequence_number"], np.int64))
        return {field_ids: KeySet(keys[field_ids], numbers[field_ids]) for field_ids in keys}

    def _delete_columns(self, field_ids: tuple[int, ...]) -> DeleteColumns:
        known = self._columns.get(field_ids)
        if known is None:
            known = self._columns[field_ids] = delete_columns(self._metadata, field_ids)
        return known


def read_delete_keys(
    storage: Storage, metadata: TableMetadata, entry: Mapping[str, Any], columns: DeleteColumns
) -> Iterator[pa.BinaryArray]:
    """The keys in one equality delete file, batch by batch. entry: a row of ENTRY_SCHEMA.

    Raises CorruptMetadata for a file without its delete columns, DataFileError.
    """
    path = entry["file_path"]
    with ContentFile(
        storage,
        path,
        entry["file_format"],
        key_metadata=entry["key_metadata"],
        name_mapping=metadata.name_mapping,
    ) as file:
        missing = file.missing([_innermost(field) for field in columns.fields])
        if missing:
            raise CorruptMetadata(
                f"Cannot apply equality deletes of {path}: the file lacks delete column {missing[0].field_id} "
                f"({missing[0].name}); expected every field of equality_ids",
                path=path,
                field="equality_ids",
            )
        for batch in file.iter_batches([replace(field, required=False) for field in columns.fields]):
            yield columns.keys(batch.columns[: len(columns.fields)], batch.num_rows)


def delete_columns(metadata: TableMetadata, field_ids: tuple[int, ...]) -> DeleteColumns:
    """The delete columns by id, typed by the newest schema that has them: a column may be dropped or promoted since.

    Raises CorruptMetadata for ids that no schema has, UnsupportedIcebergFeature for columns that cannot be compared.
    """
    schemas = sorted(metadata.schemas, key=lambda schema: -schema.schema_id)
    return DeleteColumns(field_ids=field_ids, fields=tuple(_cut_down(schemas, each) for each in field_ids))


def _cut_down(schemas: Sequence[Schema], field_id: int) -> NestedField:
    schema = next((each for each in schemas if each.find(field_id) is not None), None)
    field = None if schema is None else schema.find(field_id)
    if schema is None or field is None:
        raise CorruptMetadata(
            f"Cannot apply equality deletes: no schema of the table has field {field_id}", field="equality_ids"
        )
    if (
        not isinstance(field.type, PrimitiveType)
        or isinstance(field.type, _NO_KEYS)
        or schema.within_collection(field_id)
    ):
        raise UnsupportedIcebergFeature(
            f"Cannot apply equality deletes on {schema.full_name(field_id)}: expected a primitive outside lists and maps",
            feature="equality delete column",
        )
    field = replace(field, required=False)
    parent = schema.parent_id(field_id)
    while parent is not None:
        outer = schema.find(parent)
        if outer is None:
            break
        field = replace(outer, required=False, type=StructType(fields=(field,)))
        parent = schema.parent_id(parent)
    return field


def _innermost(field: NestedField) -> NestedField:
    while isinstance(field.type, StructType):
        field = field.type.fields[0]
    return field


def _leaf(column: pa.Array) -> pa.Array:
    """The one leaf of a column cut down to it, null where a struct around it is."""
    while pa.types.is_struct(column.type):
        (column,) = column.flatten()
    return column
