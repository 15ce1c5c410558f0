"""Partition evolution by name (section "Partition Evolution"): every change yields the next spec of a table."""

from __future__ import annotations

from dataclasses import replace

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import (
    BucketTransform,
    IdentityTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
)


class SpecUpdate:
    """Changes on top of a table's default spec; ``spec()`` gives the result.

    Field ids are reused from any spec that has an equivalent field. A version 1 table never drops or reorders fields:
    a removed one turns void, new ones go to the end. Methods raise InvalidIcebergRequest and return the update.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        self._fields = list(metadata.spec.fields)
        self._last_id = max(metadata.last_partition_id, FIRST_PARTITION_FIELD_ID - 1)

    def add_field(self, source: str, transform: Transform | None = None, name: str | None = None) -> SpecUpdate:
        """Partition by a transform of a column (identity unless said), named after both unless said."""
        column = self._metadata.schema.find_by_name(source)
        if column is None:
            raise InvalidIcebergRequest(f"Cannot partition by {source}: the schema has no such column")
        transform = IdentityTransform() if transform is None else transform
        name = default_field_name(source, transform) if name is None else name
        for part in self._fields:
            if part.name == name and isinstance(part.transform, VoidTransform):
                self._rename_void(part)
            elif part.name == name:
                raise InvalidIcebergRequest(f"Cannot add partition field {name}: there is one with this name")
            elif part.source_ids == (column.field_id,) and part.transform == transform:
                raise InvalidIcebergRequest(f"Cannot add partition field {name}: {part.name} is the same")
        column_of_name = self._metadata.schema.find_by_name(name)
        if column_of_name is not None and not (
            isinstance(transform, IdentityTransform) and column_of_name.field_id == column.field_id
        ):
            raise InvalidIcebergRequest(f"Cannot add partition field {name}: a column has this name")
        self._fields.append(
            PartitionField(
                source_ids=(column.field_id,),
                field_id=self._field_id(column.field_id, transform, name),
                name=name,
                transform=transform,
            )
        )
        return self

    def _rename_void(self, part: PartitionField) -> None:
        at = self._fields.index(part)
        self._fields[at] = replace(part, name=f"{part.name}_{part.field_id}")

    def _field_id(self, source_id: int, transform: Transform, name: str) -> int:
        if self._metadata.format_version >= 2:
            taken = {part.field_id for part in self._fields}
            for spec in self._metadata.partition_specs:
                for part in spec.fields:
                    same = part.source_ids == (source_id,) and part.transform == transform
                    if same and part.field_id not in taken:
                        return part.field_id
        self._last_id += 1
        return self._last_id

    def remove_field(self, name: str) -> SpecUpdate:
        """Stop partitioning by a field."""
        at = next(
            (
                position
                for position, part in enumerate(self._fields)
                if part.name == name and not isinstance(part.transform, VoidTransform)
            ),
            None,
        )
        if at is None:
            raise InvalidIcebergRequest(f"Cannot remove partition field {name}: there is none")
        if self._metadata.format_version == 1:
            self._fields[at] = replace(self._fields[at], transform=VoidTransform())
        else:
            del self._fields[at]
        return self

    def rename_field(self, name: str, new_name: str) -> SpecUpdate:
        """Give a partition field another name under the same id."""
        at = next((position for position, part in enumerate(self._fields) if part.name == name), None)
        if at is None:
            raise InvalidIcebergRequest(f"Cannot rename partition field {name}: there is none")
        self._fields[at] = replace(self._fields[at], name=new_name)
        return self

    def spec(self) -> PartitionSpec:
        """The new spec: one that the table has already if the fields agree, else under the next unused id."""
        wanted = PartitionSpec(spec_id=0, fields=tuple(self._fields))
        for known in self._metadata.partition_specs:
            if known.compatible(wanted):
                return known
        return replace(wanted, spec_id=max(known.spec_id for known in self._metadata.partition_specs) + 1)


def default_field_name(source: str, transform: Transform) -> str:
    """The name of a partition field that is given none, as the reference implementation makes it."""
    match transform:
        case IdentityTransform():
            return source
        case BucketTransform():
            return f"{source}_bucket_{transform.num_buckets}"
        case TruncateTransform():
            return f"{source}_trunc_{transform.width}"
        case VoidTransform():
            return f"{source}_null"
        case _:
            return f"{source}_{transform}"
