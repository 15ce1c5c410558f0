"""Partitioning both ways.

Delta: partition columns hold the column's own value, one set for the whole table. Iceberg: "Partitioning", where every
file keeps the spec it was written with. Only identity transforms over columns correspond to partition columns; the
columns of all other transforms stay ordinary ones, which changes no rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deltaberg.iceberg.partition.partition_spec import FIRST_PARTITION_FIELD_ID, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform, VoidTransform
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate import codes
from deltaberg.translate.derived_columns import DerivedColumn, derive_columns
from deltaberg.translate.findings import Finding

_UNPARTITIONABLE_IN_DELTA: Final = (ice.BinaryType, ice.UnknownType, ice.VariantType)


def delta_to_iceberg_spec(partition_columns: Sequence[str], schema: Schema, *, spec_id: int = 0) -> PartitionSpec:
    """One identity field a partition column, in the table's order, named like the column."""
    fields = []
    for position, name in enumerate(partition_columns):
        column = next(each for each in schema.fields if each.name == name)
        fields.append(
            PartitionField(
                source_ids=(column.field_id,),
                field_id=FIRST_PARTITION_FIELD_ID + position,
                name=name,
                transform=IdentityTransform(),
            )
        )
    return PartitionSpec(spec_id=spec_id, fields=tuple(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionColumn:
    """An identity field that becomes a Delta partition column.

    field_ids: by spec id, the partition field that holds the value in files of that spec.
    """

    source_id: int
    name: str
    type: ice.Type
    field_names: Mapping[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaPartitioning:
    """columns: in the order of the default spec. derived: generated columns, which come after those."""

    columns: tuple[PartitionColumn, ...]
    derived: tuple[DerivedColumn, ...] = ()
    findings: tuple[Finding, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the Delta table's partition columns."""
        return (*(column.name for column in self.columns), *(column.name for column in self.derived))


def iceberg_to_delta_partitioning(
    live_specs: Iterable[PartitionSpec],
    schema: Schema,
    *,
    empty_strings: frozenset[int] = frozenset(),
    unmappable: frozenset[int] = frozenset(),
    withheld: str | None = None,
    derive_beside: Iterable[str] | None = None,
) -> DeltaPartitioning:
    """The identity fields that the specs of all live files share, as partition columns.

    derive_beside: names that generated columns for other transforms must not have; None derives none.

    empty_strings: source ids of which some live file has the empty string as value, which a Delta log states as null.
    unmappable: source ids whose column gets another type. withheld: the reason why there are to be no partition
    columns.
    """
    specs = tuple(live_specs)
    findings: list[Finding] = []
    if len(specs) > 1:
        detail = "; ".join(f"spec {spec.spec_id}: {_spec_text(spec, schema)}" for spec in specs)
        findings.append(Finding(code=codes.PARTITION_EVOLUTION, what="partition specs", detail=detail))
    derived: tuple[DerivedColumn, ...] = ()
    if derive_beside is not None and withheld is None:
        derived = derive_columns(specs, schema, taken=derive_beside, empty_strings=empty_strings, unmappable=unmappable)
    columns: list[PartitionColumn] = []
    for field in _fields_in_order(specs):
        text = field_text(field, schema)
        found = next((each for each in derived if each.repeats(field)), None)
        if found is not None:
            findings.append(found.finding(text))
            continue
        blocker = _blocker(field, schema, specs, empty_strings, unmappable) or withheld
        if blocker is not None:
            findings.append(Finding(code=codes.PARTITION_FIELD_KEPT, what=text, detail=blocker))
            continue
        column = schema.find(field.source_id)
        assert column is not None
        names = {spec.spec_id: _identity_of(spec, field.source_id) for spec in specs}
        columns.append(
            PartitionColumn(
                source_id=field.source_id,
                name=column.name,
                type=column.type,
                field_names={spec_id: name for spec_id, name in names.items() if name is not None},
            )
        )
    return DeltaPartitioning(columns=tuple(columns), derived=derived, findings=tuple(findings))


def field_text(field: PartitionField, schema: Schema) -> str:
    """``day(ts)``, ``bucket[16](id)``, ``category``: a partition field as a person would write it."""
    source = schema.full_name(field.source_id) if schema.find(field.source_id) is not None else f"#{field.source_id}"
    return source if isinstance(field.transform, IdentityTransform) else f"{field.transform}({source})"


def _blocker(
    field: PartitionField,
    schema: Schema,
    specs: Sequence[PartitionSpec],
    empty_strings: frozenset[int],
    unmappable: frozenset[int],
) -> str | None:
    """Why a partition field cannot be a Delta partition column; None where it can."""
    if not isinstance(field.transform, IdentityTransform):
        return "Delta partitions by plain values only"
    column = schema.find(field.source_id)
    if column is None:
        return "its source column was dropped"
    if schema.parent_id(field.source_id) is not None:
        return "its source column is nested"
    if isinstance(column.type, _UNPARTITIONABLE_IN_DELTA):
        return f"a Delta log cannot state every {ice.type_name(column.type)} value"
    if field.source_id in unmappable:
        return "its source column gets another type"
    if field.source_id in empty_strings:
        return "a value is the empty string, which a Delta log states as null"
    missing = [spec.spec_id for spec in specs if _identity_of(spec, field.source_id) is None]
    return f"files of spec {missing[0]} are not partitioned by it" if missing else None


def _identity_of(spec: PartitionSpec, source_id: int) -> str | None:
    for field in spec.fields:
        if field.source_id == source_id and isinstance(field.transform, IdentityTransform):
            return field.name
    return None


def _fields_in_order(specs: Sequence[PartitionSpec]) -> list[PartitionField]:
    """Every distinct field of the specs, void ones left out, newest spec first."""
    found: dict[tuple[int, str], PartitionField] = {}
    for spec in sorted(specs, key=lambda each: -each.spec_id):
        for field in spec.fields:
            if not isinstance(field.transform, VoidTransform):
                found.setdefault((field.source_id, str(field.transform)), field)
    return list(found.values())


def _spec_text(spec: PartitionSpec, schema: Schema) -> str:
    fields = [field_text(field, schema) for field in spec.fields if not isinstance(field.transform, VoidTransform)]
    return ", ".join(fields) or "unpartitioned"
