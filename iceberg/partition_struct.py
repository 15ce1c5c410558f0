"""One struct for the partition values of all specs of a table.

The specification has a partition type per spec; tables about files of several specs need one. As Iceberg's own
metadata tables do, it has every partition field once, by field id, typed and named as the newest spec has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from deltaberg.iceberg.partition_spec import PartitionField
from deltaberg.iceberg.table_metadata import TableMetadata
from deltaberg.iceberg.transforms import VoidTransform
from deltaberg.iceberg.types import arrow_type


class PartitionStruct:
    """``type``: an Arrow struct with a nullable field per partition field id, ascending by id."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata
        names: dict[int, str] = {}
        chosen: dict[int, tuple[PartitionField, pa.DataType]] = {}
        for spec in sorted(metadata.partition_specs, key=lambda each: -each.spec_id):
            kinds = spec.partition_type(metadata.schemas_newest_first).fields
            for part, kind in zip(spec.fields, kinds, strict=True):
                names.setdefault(part.field_id, part.name)
                known = chosen.get(part.field_id)
                # In version 1 a dropped field lives on as void: the type it had before is that of its values.
                if known is None or isinstance(known[0].transform, VoidTransform):
                    chosen[part.field_id] = (part, arrow_type(kind.type))
        self.field_ids = tuple(sorted(chosen))
        taken = [names[field_id] for field_id in self.field_ids]
        self.type = pa.struct(
            [
                pa.field(name if taken.count(name) == 1 else f"{name}_{field_id}", chosen[field_id][1])
                for name, field_id in zip(taken, self.field_ids, strict=True)
            ]
        )

    def scalars(self, spec_id: int, partition: pa.StructScalar) -> list[pa.Scalar]:
        """The values of one tuple of a spec, null for fields of other specs."""
        ids = self._spec_field_ids(spec_id)
        return [
            partition[ids.index(field_id)].cast(field.type) if field_id in ids else pa.scalar(None, field.type)
            for field_id, field in zip(self.field_ids, self.type, strict=True)
        ]

    def array(self, spec_id: int, partitions: pa.StructArray) -> pa.StructArray:
        """The tuples of one spec in the common type."""
        ids = self._spec_field_ids(spec_id)
        if not self.field_ids:
            return pa.StructArray.from_buffers(self.type, len(partitions), [None])
        columns = [
            partitions.field(ids.index(field_id)).cast(field.type)
            if field_id in ids
            else pa.nulls(len(partitions), field.type)
            for field_id, field in zip(self.field_ids, self.type, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))

    def _spec_field_ids(self, spec_id: int) -> Sequence[int]:
        return [part.field_id for part in self._metadata.spec_by_id(spec_id).fields]
