"""Manifests of any version and format as Arrow batches (section "Manifests").

Everything that an entry inherits is resolved here: snapshot id, sequence numbers ("Sequence Number Inheritance") and
first row id ("First Row ID Inheritance").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import error_context
from deltaberg.iceberg.errors import CorruptMetadata, UnsupportedIcebergFeature
from deltaberg.iceberg.manifest.content_stats import metrics_from_stats
from deltaberg.iceberg.manifest.data_file import ADDED, DATA, DELETED, EQUALITY_DELETES, EXISTING, data_file_schema
from deltaberg.iceberg.manifest.manifest_entry import FILE_SEQUENCE_NUMBER, SEQUENCE_NUMBER
from deltaberg.iceberg.manifest.manifest_file import ManifestSource, open_manifest
from deltaberg.iceberg.manifest.manifest_list import (
    COUNTS,
    RELATIVE_LOCATIONS,
    ROW_COUNTS,
    ManifestContent,
    ManifestFile,
)
from deltaberg.iceberg.metadata.location import has_scheme, qualify_location, resolve_locations
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.schema.types import arrow_type
from deltaberg.storage.protocol import Storage

_STATUS_OF_COUNT: Final = (ADDED, EXISTING, DELETED)
_CONTENTS: Final = {"data": ManifestContent.DATA, "deletes": ManifestContent.DELETES}


def read_manifest(
    storage: Storage, manifest: ManifestFile, metadata: TableMetadata, *, with_metrics: bool = True
) -> Iterator[pa.RecordBatch]:
    """All entries of a manifest, deleted ones too, as batches of ``data_file_schema`` in file order.

    with_metrics: False reads less and leaves the maps by column null.

    Raises CorruptMetadata naming file and field, UnsupportedIcebergFeature for encrypted manifests and formats that
    no version defines, StorageError when the file is not there.
    """
    if manifest.key_metadata is not None:
        raise UnsupportedIcebergFeature(
            f"Cannot read manifest {manifest.manifest_path}: it is encrypted; decrypt the table first",
            path=manifest.manifest_path,
            feature="encryption",
        )
    spec = metadata.spec_by_id(manifest.partition_spec_id)
    with error_context(path=manifest.manifest_path):
        source = open_manifest(storage, manifest.manifest_path, spec, metadata, with_metrics=with_metrics)
        if source.entries_prefixed is not None:
            yield from _either_way(manifest, metadata, source, source.entries_prefixed)
            return
        yield from _resolved(manifest, metadata, source, source.entries)


def _resolved(
    manifest: ManifestFile, metadata: TableMetadata, source: ManifestSource, entries: Iterator[pa.StructArray]
) -> Iterator[pa.RecordBatch]:
    inheritance = _Inheritance(manifest, metadata, source)
    for each in entries:
        yield inheritance.resolve(each)
    inheritance.check_counts()


def _either_way(
    manifest: ManifestFile, metadata: TableMetadata, source: ManifestSource, prefixed: Iterator[pa.StructArray]
) -> list[pa.RecordBatch]:
    """The entries of a manifest whose ``fixed`` values may have a length before them, as Iceberg's Java library writes
    them though the schema says otherwise: the reading that fits the file and the counts of the list.

    Where a value ends in a byte above 127, the next number can take it up, and both readings fill the file: then the
    counts decide. Raises CorruptMetadata where neither reading fits, or both do and differ.
    """
    found: list[list[pa.RecordBatch]] = []
    failed: list[CorruptMetadata] = []
    for entries in (source.entries, prefixed):
        try:
            found.append(list(_resolved(manifest, metadata, source, entries)))
        except CorruptMetadata as error:
            failed.append(error)
    if not found:
        raise failed[0]
    if len(found) == 2 and found[0] != found[1]:
        raise CorruptMetadata(
            "Cannot read manifest: its fixed partition values can be read with and without a length before them, and the "
            "manifest list does not tell which is right; have the manifest written once more (rewrite_manifests)",
            field="partition",
        )
    return found[0]


class _Inheritance:
    """The values that the entries of one manifest inherit from its entry in the list; also adds up what the list
    states.
    """

    def __init__(self, manifest: ManifestFile, metadata: TableMetadata, source: ManifestSource) -> None:
        self.manifest = manifest
        self.location = metadata.location
        self.table_schema = metadata.schema
        self.has_content_stats = source.has_content_stats
        self.relative = metadata.format_version >= RELATIVE_LOCATIONS
        self.written_relative = source.format_version >= RELATIVE_LOCATIONS
        self.schema = data_file_schema(arrow_type(source.partition))
        self.next_row_id = manifest.first_row_id
        self.files = np.zeros(3, dtype=np.int64)
        self.rows = np.zeros(3, dtype=np.int64)
        # Version 1 manifests have no such columns: all their sequence numbers are 0, whatever number the list states.
        old = source.format_version == 1
        self.sequence_number = 0 if old and SEQUENCE_NUMBER not in source.field_ids else manifest.sequence_number
        self.file_sequence_number = (
            0 if old and FILE_SEQUENCE_NUMBER not in source.field_ids else manifest.sequence_number
        )
        declared = source.properties.get("content")
        if declared is not None and _CONTENTS.get(declared) is not manifest.content:
            raise _invalid("content", f"a manifest of {manifest.content.name.lower()}, as the list says", declared)
        spec_id = source.properties.get("partition-spec-id")
        if spec_id is not None and spec_id.isdecimal() and int(spec_id) != manifest.partition_spec_id:
            raise _invalid("partition-spec-id", f"{manifest.partition_spec_id}, as the list says", spec_id)

    def resolve(self, entries: pa.StructArray) -> pa.RecordBatch:
        """The batch of some entries, the next ones in file order."""
        status = _present(entries.field("status"), "status")
        _within(status, "status", 0, 2)
        file = entries.field("data_file")
        _present(file, "data_file")
        content = self._content(file.field("content"))
        record_count = _present(file.field("record_count"), "record_count")
        _within(record_count, "record_count", 0, None)
        size = _present(file.field("file_size_in_bytes"), "file_size_in_bytes")
        _within(size, "file_size_in_bytes", 0, None)
        self._add_up(status, record_count)
        columns = {name: file.field(name) for name in self.schema.names if file.type.get_field_index(name) >= 0}
        snapshot_id = entries.field("snapshot_id")
        if self.manifest.added_snapshot_id is not None:
            snapshot_id = pc.fill_null(snapshot_id, self.manifest.added_snapshot_id)
        if self.has_content_stats:
            columns |= self._metrics(file, columns)
        columns |= {
            "status": status,
            "snapshot_id": snapshot_id,
            "sequence_number": self._sequence_numbers(entries, status),
            "file_sequence_number": _inherited(
                entries.field("file_sequence_number"), status, self.file_sequence_number
            ),
            "content": content,
            "file_path": self._locations(_present(file.field("file_path"), "file_path")),
            "file_format": pc.ascii_lower(_present(file.field("file_format"), "file_format")),
            "spec_id": pa.repeat(pa.scalar(self.manifest.partition_spec_id, pa.int32()), len(entries)),
            "first_row_id": self._first_row_ids(file.field("first_row_id"), status, record_count),
            "referenced_data_file": self._locations(file.field("referenced_data_file")),
        }
        arrays = [
            _typed(columns[field.name], field) if field.name in columns else pa.nulls(len(entries), field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def check_counts(self) -> None:
        """Compare the entries read with the counts that the manifest list states."""
        for names, seen in ((COUNTS, self.files), (ROW_COUNTS, self.rows)):
            for name, status in zip(names, _STATUS_OF_COUNT, strict=True):
                said = getattr(self.manifest, name)
                if said is not None and said != int(seen[status]):
                    raise CorruptMetadata(
                        f"Cannot read manifest: the manifest list says {name} {said}, found {int(seen[status])}",
                        field=name,
                    )

    def _metrics(self, file: pa.StructArray, columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """The metrics maps; where an entry has none, those that its typed statistics stand for."""
        typed = metrics_from_stats(file.field("content_stats"), self.table_schema)
        return {
            name: _first_valid(_typed(columns[name], self.schema.field(name)), maps) for name, maps in typed.items()
        }

    def _add_up(self, status: pa.Array, record_count: pa.Array) -> None:
        codes = status.to_numpy()
        counts = record_count.to_numpy()
        self.files += np.bincount(codes, minlength=3)
        for code in _STATUS_OF_COUNT:
            self.rows[code] += int(counts[codes == code].sum())

    def _content(self, content: pa.Array) -> pa.Array:
        content = pc.fill_null(content, DATA)
        if self.manifest.content is ManifestContent.DATA:
            _within(content, "content", DATA, DATA)
        else:
            _within(content, "content", DATA + 1, EQUALITY_DELETES)
        return content

    def _sequence_numbers(self, entries: pa.StructArray, status: pa.Array) -> pa.Array:
        numbers = _inherited(entries.field("sequence_number"), status, self.sequence_number)
        if numbers.null_count and pc.any(pc.and_(pc.is_null(numbers), pc.not_equal(status, DELETED))).as_py():
            raise _invalid("sequence_number", "a number for every existing file", "null")
        highest = pc.max(numbers).as_py()
        if self.sequence_number > 0 and highest is not None and highest > self.sequence_number:
            raise _invalid("sequence_number", f"at most {self.sequence_number}, that of the manifest", highest)
        return numbers

    def _locations(self, paths: pa.Array) -> pa.Array:
        if not self.relative:
            return paths
        if self.written_relative:
            return resolve_locations(self.location, paths)
        encoded = paths.dictionary_encode()
        fixed = [
            each if has_scheme(each) else qualify_location(self.location, each)
            for each in encoded.dictionary.to_pylist()
        ]
        return pa.array(fixed, pa.string()).take(encoded.indices)

    def _first_row_ids(self, stored: pa.Array, status: pa.Array, record_count: pa.Array) -> pa.Array:
        """Ids that were not assigned yet follow each other from the manifest's; without one, nothing has an id.

        Deleted entries neither get nor use up ids, as in the reference implementation.
        """
        if self.next_row_id is None or self.manifest.content is not ManifestContent.DATA:
            return pa.nulls(len(stored), pa.int64())
        open_rows = pc.and_(pc.is_null(stored), pc.not_equal(status, DELETED))
        counts = np.where(open_rows.to_numpy(zero_copy_only=False), record_count.to_numpy(), 0)
        ends = self.next_row_id + np.cumsum(counts)
        assigned = pc.if_else(open_rows, pa.array(ends - counts), stored)
        self.next_row_id = int(ends[-1]) if len(ends) else self.next_row_id
        return assigned


def _inherited(numbers: pa.Array, status: pa.Array, inherited: int) -> pa.Array:
    """Null numbers of added files become the manifest's; so do all others where that is 0 (version 1)."""
    if numbers.null_count == 0:
        return numbers
    if inherited == 0:
        return pc.fill_null(numbers, 0)
    takes = pc.and_(pc.is_null(numbers), pc.equal(status, ADDED))
    return pc.if_else(takes, pa.scalar(inherited, pa.int64()), numbers)


def _present(values: pa.Array, field: str) -> pa.Array:
    if values.null_count:
        raise CorruptMetadata(f"Cannot read manifest: {field} is missing", field=field)
    return values


def _within(values: pa.Array, field: str, low: int, high: int | None) -> None:
    if len(values) == 0:
        return
    found = pc.min_max(values).as_py()
    for value in (found["min"], found["max"]):
        if value < low or (high is not None and value > high):
            expected = f"{low} to {high}" if high is not None else f"at least {low}"
            raise _invalid(field, expected if high != low else str(low), value)


def _invalid(field: str, expected: str, found: object) -> CorruptMetadata:
    return CorruptMetadata(
        f"Cannot read manifest: {field} is invalid (expected {expected}, found {found})", field=field
    )


def _first_valid(first: pa.Array, second: pa.Array) -> pa.Array:
    if first.null_count == 0:
        return first
    index = np.arange(len(first), dtype=np.int64)
    index[first.is_null().to_numpy(zero_copy_only=False)] += len(first)
    return pa.concat_arrays([first, second]).take(pa.array(index))


def _typed(values: pa.Array, field: pa.Field) -> pa.Array:
    return values if values.type == field.type else values.cast(field.type)
