"""The bounds and null counts in an Iceberg table's manifests, beside the values of the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.manifest.metrics import metric
from deltaberg.iceberg.scan.content_file import ContentFile
from deltaberg.iceberg.schema.read_schema import identity_constants
from deltaberg.iceberg.schema.single_value import decode_bounds
from deltaberg.iceberg.schema.types import GeographyType, GeometryType, NestedField, UnknownType, VariantType
from deltaberg.migrate.source import IcebergSource
from deltaberg.migrate.verify.stated_bounds import StatedBounds, ValueRange, value_ranges
from deltaberg.migrate.verify.tables import field_path
from deltaberg.translate.field_ids import Path

_UNBOUNDED = (GeometryType, GeographyType, VariantType, UnknownType)


def stated_bounds(table: IcebergSource) -> Iterator[tuple[list[StatedBounds], Mapping[Path, ValueRange]]]:
    metadata, schema = table.table.metadata, table.schema
    leaves = [
        leaf
        for leaf in schema.leaves()
        if not schema.within_collection(leaf.field_id) and not isinstance(leaf.type, _UNBOUNDED)
    ]
    paths = [field_path(schema, leaf) for leaf in leaves]
    for batch in data_files(table.table, table.snapshot):
        spec = metadata.spec_by_id(batch.column("spec_id")[0].as_py())
        bounds = {leaf.field_id: _columns(batch, leaf) for leaf in leaves}
        names = ("file_path", "file_format", "key_metadata")
        for row, (path, kind, key) in enumerate(zip(*(batch.column(name).to_pylist() for name in names), strict=True)):
            constants = identity_constants(spec, batch.column("partition")[row])
            with ContentFile(table.storage, path, kind, key_metadata=key, name_mapping=metadata.name_mapping) as file:
                ranges = value_ranges(file.iter_batches(schema.fields, constants=constants), paths)
            claims = []
            for leaf, column in zip(leaves, paths, strict=True):
                lower, upper, nulls = (values[row] for values in bounds[leaf.field_id])
                claims.append(StatedBounds(file=path, column=column, lower=lower, upper=upper, nulls=nulls.as_py()))
            yield claims, ranges


def _columns(batch: pa.RecordBatch, leaf: NestedField) -> tuple[pa.Array, pa.Array, pa.Array]:
    return (
        decode_bounds(metric(batch.column("lower_bounds"), leaf.field_id), leaf.type),
        decode_bounds(metric(batch.column("upper_bounds"), leaf.field_id), leaf.type),
        metric(batch.column("null_value_counts"), leaf.field_id),
    )
