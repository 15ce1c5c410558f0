"""One struct for the partition values of all specs of a table.

The specification has a partition type per spec; tables about files of several specs need one. As Iceberg's own
metadata tables do, it has every partition field once, by field id, typed and named as the newest spec has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import PartitionField
from deltaberg.iceberg.partition.transforms import VoidTransform
from deltaberg.iceberg.schema.types import arrow_type


@dataclass(slots=True, kw_only=True)
class _Slot:
    """One field of the common struct: ``part`` as the newest spec that knows more than void has it."""

    name: str
    part: PartitionField
    type: pa.DataType

    def takes(self, part: PartitionField) -> bool:
        """Version 1 did not track field ids: the same one may stand for quite another field in an older spec."""
        same_transform = str(part.transform) == str(self.part.transform)
        return (part.field_id, part.source_ids) == (self.part.field_id, self.part.source_ids) and (
            same_transform or _is_void(part) or _is_void(self.part)
        )


class PartitionStruct:
    """``type``: an Arrow struct with a nullable field per partition field, ascending by field id."""

    def __init__(self, metadata: TableMetadata) -> None:
        slots: list[_Slot] = []
        places: dict[int, list[_Slot | None]] = {}
        for spec in sorted(metadata.partition_specs, key=lambda each: -each.spec_id):
            kinds = spec.partition_type(metadata.schemas_newest_first).fields
            own = places.setdefault(spec.spec_id, [])
            for part, kind in zip(spec.fields, kinds, strict=True):
                slot = next((each for each in slots if each.takes(part)), None)
                if slot is None:
                    slot = _Slot(name=part.name, part=part, type=arrow_type(kind.type))
                    slots.append(slot)
                elif _is_void(slot.part):
                    # In version 1 a dropped field lives on as void: the type it had before is that of its values.
                    slot.part, slot.type = part, arrow_type(kind.type)
                # The values of a void field are null, whatever type they are written with.
                own.append(None if _is_void(part) else slot)
        slots.sort(key=lambda slot: slot.part.field_id)
        self.type = pa.struct(
            [pa.field(name, slot.type) for name, slot in zip(_distinct_names(slots), slots, strict=True)]
        )
        self._places = {
            spec_id: [next((i for i, each in enumerate(own) if each is slot), None) for slot in slots]
            for spec_id, own in places.items()
        }

    def scalars(self, spec_id: int, partition: pa.StructScalar) -> list[pa.Scalar]:
        """The values of one tuple of a spec, null for fields of other specs."""
        return [
            pa.scalar(None, field.type) if place is None else partition[place].cast(field.type)
            for place, field in zip(self._places[spec_id], self.type, strict=True)
        ]

    def array(self, spec_id: int, partitions: pa.StructArray) -> pa.StructArray:
        """The tuples of one spec in the common type."""
        if not self.type.num_fields:
            return pa.StructArray.from_buffers(self.type, len(partitions), [None])
        columns = [
            pa.nulls(len(partitions), field.type) if place is None else partitions.field(place).cast(field.type)
            for place, field in zip(self._places[spec_id], self.type, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self.type))


def _is_void(part: PartitionField) -> bool:
    return isinstance(part.transform, VoidTransform)


def _distinct_names(slots: Iterable[_Slot]) -> list[str]:
    """The names, followed by the field id (and source id) where one would occur twice."""
    slots = list(slots)
    names = [slot.name for slot in slots]
    ids = [slot.part.field_id for slot in slots]
    return [
        name
        if names.count(name) == 1
        else f"{name}_{slot.part.field_id}" + ("" if ids.count(slot.part.field_id) == 1 else f"_{slot.part.source_id}")
        for name, slot in zip(names, slots, strict=True)
    ]
