"""Partition specs (section "Partitioning", JSON in Appendix C)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.partition.transforms import (
    Transform,
    UnknownTransform,
    VoidTransform,
    check_transform,
    parse_transform,
)
from deltaberg.iceberg.schema.json_object import JsonObject, as_list, rejected
from deltaberg.iceberg.schema.schema import Schema, find_in
from deltaberg.iceberg.schema.types import IntegerType, NestedField, StructType, Type, arrow_type

FIRST_PARTITION_FIELD_ID = 1000
_KEYS = frozenset({"spec-id", "fields"})
_FIELD_KEYS = frozenset({"source-id", "source-ids", "field-id", "name", "transform"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionField:
    """One value of the partition tuple: a transform of one source column (several only for unknown transforms)."""

    source_ids: tuple[int, ...]
    field_id: int
    name: str
    transform: Transform
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    @property
    def source_id(self) -> int:
        """The id of the source column (the first one of a multi-argument transform)."""
        return self.source_ids[0]

    def result_type(self, source: Type | None) -> Type:
        """The type of the partition value; a void field whose source is gone counts as int."""
        if source is None and isinstance(self.transform, VoidTransform):
            return IntegerType()
        if source is None and not isinstance(self.transform, UnknownTransform):
            raise CorruptMetadata(
                f"Cannot type partition field {self.name}: no schema has its source column {self.source_id}",
                field=f"partition field {self.field_id}",
            )
        return self.transform.result_type(IntegerType() if source is None else source)

    def equivalent(self, other: PartitionField) -> bool:
        """True when source, transform and name agree (the field id may differ)."""
        return (
            self.source_ids == other.source_ids
            and str(self.transform) == str(other.transform)
            and self.name == other.name
        )

    def to_json(self) -> dict[str, object]:
        """The partition field object of Appendix C."""
        sources: dict[str, object] = (
            {"source-id": self.source_id} if len(self.source_ids) == 1 else {"source-ids": list(self.source_ids)}
        )
        return {
            **sources,
            "field-id": self.field_id,
            "name": self.name,
            "transform": str(self.transform),
            **self.extra,
        }

    @classmethod
    def from_json(cls, value: object, path: str, default_field_id: int) -> PartitionField:
        """Parse one field; version 1 may leave out ``field-id``."""
        node = JsonObject(value, path)
        transform, source_ids = parse_sources(node)
        field_id = node.optional_integer("field-id", low=0)
        return cls(
            source_ids=source_ids,
            field_id=default_field_id if field_id is None else field_id,
            name=node.text("name"),
            transform=transform,
            extra=node.extra(_FIELD_KEYS),
        )


def parse_sources(node: JsonObject) -> tuple[Transform, tuple[int, ...]]:
    """The transform and source ids of a partition or sort field.

    A transform over several columns is kept as unknown: no specification defines one.
    """
    transform = parse_transform(node.raw("transform"), node.at("transform"))
    if node.has("source-ids"):
        source_ids = node.integers("source-ids")
        if not source_ids:
            raise rejected(node.at("source-ids"), "at least one source column", [])
        if node.has("source-id") and source_ids != (node.integer("source-id"),):
            raise rejected(node.at("source-id"), "only one of source-id and source-ids", node.values.get("source-id"))
    else:
        source_ids = (node.integer("source-id"),)
    if len(source_ids) > 1 and not isinstance(transform, UnknownTransform):
        transform = UnknownTransform(text=str(transform))
    return transform, source_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """How partition tuples are derived; raises InvalidIcebergRequest when field ids or names repeat."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        ids = [part.field_id for part in self.fields]
        names = [part.name for part in self.fields]
        for what, values in (("field id", ids), ("name", names)):
            twice = next((value for position, value in enumerate(values) if value in values[:position]), None)
            if twice is not None:
                raise InvalidIcebergRequest(
                    f"Cannot use partition spec {self.spec_id}: the {what} {twice} occurs twice"
                )

    @property
    def is_unpartitioned(self) -> bool:
        """True when no field produces a value: it has no fields, or only void ones."""
        return all(isinstance(part.transform, VoidTransform) for part in self.fields)

    @property
    def last_assigned_id(self) -> int:
        """The highest field id in use; 999 without fields."""
        return max((part.field_id for part in self.fields), default=FIRST_PARTITION_FIELD_ID - 1)

    def partition_type(self, schemas: Schema | Iterable[Schema]) -> StructType:
        """The struct of partition values: one optional field per partition field, typed by the first schema that has
        its source column (give the current schema first: a source column may be gone from it)."""
        known = (schemas,) if isinstance(schemas, Schema) else tuple(schemas)
        return StructType(
            fields=tuple(
                NestedField(
                    field_id=part.field_id,
                    name=part.name,
                    required=False,
                    type=part.result_type(_source_type(known, part.source_id)),
                )
                for part in self.fields
            )
        )

    def arrow_partition_type(self, schemas: Schema | Iterable[Schema]) -> pa.DataType:
        """``partition_type`` as an Arrow struct."""
        return arrow_type(self.partition_type(schemas))

    def check(self, schema: Schema) -> None:
        """Raise InvalidIcebergRequest unless data of a schema can be written under this spec."""
        for part in self.fields:
            if isinstance(part.transform, UnknownTransform):
                raise InvalidIcebergRequest(
                    f"Cannot write under partition spec {self.spec_id}: field {part.name} has the unknown transform "
                    f"{part.transform}"
                )
            if isinstance(part.transform, VoidTransform):
                continue
            source = schema.find(part.source_id)
            if source is None or schema.within_collection(part.source_id):
                raise InvalidIcebergRequest(
                    f"Cannot write under partition spec {self.spec_id}: field {part.name} needs source column "
                    f"{part.source_id}, a primitive outside lists and maps"
                )
            check_transform(part.transform, source.type, part.name)

    def compatible(self, other: PartitionSpec) -> bool:
        """True when the fields agree in source, transform and name, whatever their ids."""
        return len(self.fields) == len(other.fields) and all(
            mine.equivalent(theirs) for mine, theirs in zip(self.fields, other.fields, strict=True)
        )

    def fields_to_json(self) -> list[dict[str, object]]:
        """The field list alone, as the version 1 ``partition-spec`` and manifest headers hold it."""
        return [part.to_json() for part in self.fields]

    def to_json(self) -> dict[str, object]:
        """The partition spec object of Appendix C."""
        return {"spec-id": self.spec_id, "fields": self.fields_to_json(), **self.extra}

    @classmethod
    def from_fields_json(cls, value: object, path: str, *, spec_id: int) -> PartitionSpec:
        """Parse a field list; ids left out by version 1 writers are assigned from 1000 in order."""
        return _build(
            path,
            spec_id,
            tuple(
                PartitionField.from_json(item, f"{path}[{position}]", FIRST_PARTITION_FIELD_ID + position)
                for position, item in enumerate(as_list(value, path))
            ),
            {},
        )

    @classmethod
    def from_json(cls, value: object, path: str = "$") -> PartitionSpec:
        """Parse a partition spec object. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        fields = cls.from_fields_json(node.raw("fields"), node.at("fields"), spec_id=0).fields
        return _build(path, node.integer("spec-id", low=0), fields, node.extra(_KEYS))


UNPARTITIONED = PartitionSpec(spec_id=0)


def _build(path: str, spec_id: int, fields: tuple[PartitionField, ...], extra: Mapping[str, object]) -> PartitionSpec:
    try:
        return PartitionSpec(spec_id=spec_id, fields=fields, extra=extra)
    except InvalidIcebergRequest as error:
        raise CorruptMetadata(f"Cannot read {path}: {error.message}", field=path) from error


def _source_type(schemas: tuple[Schema, ...], source_id: int) -> Type | None:
    found = find_in(schemas, source_id)
    return None if found is None else found.type
