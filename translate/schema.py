"""Schemas both ways: names, ids, nullability, comments, defaults; types one by one as ``types`` says.

Delta: "Schema Serialization Format", "Column Mapping", "Default Columns". Iceberg: "Schemas and Data Types",
"Default values".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME, MappingMode
from deltaberg.delta.schema.schema import type_to_json as delta_type_to_json
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.translate import codes
from deltaberg.translate.field_ids import Path, physical_name
from deltaberg.translate.findings import Code, Finding, Severity
from deltaberg.translate.sql_literal import LiteralError, delta_to_iceberg_default, iceberg_to_delta_default
from deltaberg.translate.type_changes import TYPE_CHANGES_KEY, TypeChangeEntry
from deltaberg.translate.types import TYPE_MAPPINGS, delta_to_iceberg_type, iceberg_to_delta_type, mappable_name

DEFAULT_KEY: Final = "CURRENT_DEFAULT"
_CHAR_KEY: Final = "__CHAR_VARCHAR_TYPE_STRING"
_RULES: Final[Mapping[str, str]] = {
    "delta.generationExpression": "generated column",
    "delta.identity.start": "identity column",
    "delta.invariants": "invariant",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafPair:
    """A primitive or variant field as both sides know it.

    path: physical names in Delta, which are also the keys of its statistics. in_collection: below a list or map.
    mapped: the values change on the way (``--map``). name: the dotted logical name.
    """

    field_id: int
    path: Path
    name: str
    iceberg: ice.Type
    delta: delta.DeltaType
    in_collection: bool
    mapped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSchemaTranslation:
    """schema: the Iceberg one. leaves: in schema order. left_out: paths of void columns that were left out."""

    schema: Schema
    leaves: tuple[LeafPair, ...]
    left_out: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSchemaTranslation:
    """schema: the Delta one. mapped_ids: leaves whose values change on the way."""

    schema: delta.StructType
    leaves: tuple[LeafPair, ...]
    max_column_id: int
    has_defaults: bool
    findings: tuple[Finding, ...] = ()

    @property
    def mapped_ids(self) -> frozenset[int]:
        return frozenset(leaf.field_id for leaf in self.leaves if leaf.mapped)


def required_version(schema: delta.StructType) -> tuple[int, str]:
    """The lowest Iceberg format version that has all types and defaults of a Delta schema, and the type or default that
    needs it.
    """
    version, reason = 1, ""
    for path, kind, column in _delta_leaves(schema, ()):
        name = ".".join(path)
        target = delta_to_iceberg_type(kind)
        if target is not None and target.min_version > version:
            version, reason = target.min_version, f"column {name} of type {_delta_name(kind)}"
        if column is not None and version < 3 and _literal_default(column) is not None:
            version, reason = 3, f"the default of column {name}"
    return version, reason


def delta_to_iceberg_schema(
    schema: delta.StructType, ids: Mapping[Path, int], *, format_version: int, schema_id: int = 0
) -> IcebergSchemaTranslation:
    """The Iceberg schema with the ids given for every path of the Delta schema.

    Findings name the columns that are widened, left out or refused; a schema with refused types is still returned,
    without them.
    """
    visitor = _ToIceberg(ids=ids, format_version=format_version)
    fields = visitor.struct(schema, (), (), in_collection=False)
    if not fields and not any(finding.code.severity is Severity.REFUSE for finding in visitor.findings):
        visitor.findings.append(Finding(code=codes.NO_COLUMNS, what="schema"))
    translated = Schema(schema_id=schema_id, fields=fields)
    visitor.findings.extend(
        Finding(code=codes.NAMES_BY_PATH, what=name) for name in _dotted_names_of_several(translated)
    )
    return IcebergSchemaTranslation(
        schema=translated,
        leaves=tuple(visitor.leaves),
        left_out=tuple(visitor.left_out),
        findings=tuple(visitor.findings),
    )


def _dotted_names_of_several(schema: Schema) -> list[str]:
    counts = Counter(schema.full_name(each.field_id) for each in ice.walk(schema.fields))
    return [name for name, count in counts.items() if count > 1]


def iceberg_to_delta_schema(
    schema: Schema,
    *,
    mode: MappingMode,
    physical_names: Mapping[int, str] | None = None,
    type_changes: Mapping[int, tuple[TypeChangeEntry, ...]] | None = None,
    type_mappings: Mapping[str, str] | None = None,
) -> DeltaSchemaTranslation:
    """The Delta schema with Iceberg's field ids as column mapping ids.

    physical_names: by field id, where a field's name in the files is not its present name.
    type_changes: by field id, recorded for ``typeWidening``. type_mappings: as ``--map`` gives them.
    """
    visitor = _ToDelta(
        mode=mode,
        physical_names=physical_names or {},
        type_changes=type_changes or {},
        type_mappings=type_mappings or {},
    )
    fields = visitor.struct(schema.fields, (), (), in_collection=False)
    if not schema.fields:
        visitor.findings.append(Finding(code=codes.NO_COLUMNS, what="schema"))
    return DeltaSchemaTranslation(
        schema=delta.StructType(fields=fields),
        leaves=tuple(visitor.leaves),
        max_column_id=schema.highest_field_id,
        has_defaults=visitor.has_defaults,
        findings=tuple(visitor.findings),
    )


@dataclass(kw_only=True)
class _ToIceberg:
    ids: Mapping[Path, int]
    format_version: int
    leaves: list[LeafPair] = field(default_factory=list)
    left_out: list[Path] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def struct(
        self, kind: delta.StructType, path: Path, names: Path, *, in_collection: bool
    ) -> tuple[ice.NestedField, ...]:
        fields = []
        for column in kind.fields:
            below, name = (*path, physical_name(column)), (*names, column.name)
            self._remark(column, ".".join(name))
            if isinstance(column.type, delta.VoidType) and self.format_version < 3 and not in_collection:
                self.left_out.append(below)
                self.findings.append(Finding(code=codes.VOID_DROPPED, what=".".join(name)))
                continue
            target = self._type(column.type, below, name, in_collection=in_collection)
            if target is None:
                continue
            fields.append(
                ice.NestedField(
                    field_id=self.ids[below],
                    name=column.name,
                    required=not column.nullable and not isinstance(target, ice.UnknownType),
                    type=target,
                    doc=column.comment,
                    write_default=_literal_default(column) if self.format_version >= 3 else None,
                )
            )
        return tuple(fields)

    def _type(self, kind: delta.DeltaType, path: Path, names: Path, *, in_collection: bool) -> ice.Type | None:
        match kind:
            case delta.StructType():
                fields = self.struct(kind, path, names, in_collection=in_collection)
                if not fields and kind.fields:
                    self._refuse(codes.TYPE_NEEDS_VERSION_3, names, "struct of void")
                    return None
                return ice.StructType(fields=fields)
            case delta.ArrayType(element_type=element, contains_null=contains_null):
                part = self._part(element, path, names, "element", required=not contains_null)
                return None if part is None else ice.ListType(element=part)
            case delta.MapType(key_type=key, value_type=value, value_contains_null=value_contains_null):
                key_part = self._part(key, path, names, "key", required=True)
                value_part = self._part(value, path, names, "value", required=not value_contains_null)
                return None if key_part is None or value_part is None else ice.MapType(key=key_part, value=value_part)
            case _:
                return self._leaf(kind, path, names, in_collection=in_collection)

    def _part(
        self, kind: delta.DeltaType, path: Path, names: Path, step: str, *, required: bool
    ) -> ice.NestedField | None:
        below = (*path, step)
        target = self._type(kind, below, (*names, step), in_collection=True)
        if target is None:
            return None
        unknown = isinstance(target, ice.UnknownType)
        return ice.NestedField(field_id=self.ids[below], name=step, required=required and not unknown, type=target)

    def _leaf(self, kind: delta.DeltaType, path: Path, names: Path, *, in_collection: bool) -> ice.Type | None:
        target = delta_to_iceberg_type(kind)
        if target is None:
            self._refuse(codes.TYPE_NOT_IN_ICEBERG, names, _delta_name(kind))
            return None
        if target.min_version > self.format_version:
            self._refuse(codes.TYPE_NEEDS_VERSION_3, names, _delta_name(kind))
            return None
        if isinstance(kind, (delta.ByteType, delta.ShortType)):
            self.findings.append(Finding(code=codes.TYPE_WIDENED, what=".".join(names), detail=_delta_name(kind)))
        if isinstance(kind, delta.StringType) and kind.collation is not None:
            self.findings.append(Finding(code=codes.COLLATION, what=".".join(names), detail=kind.collation))
        self.leaves.append(
            LeafPair(
                field_id=self.ids[path],
                path=path,
                name=".".join(names),
                iceberg=target,
                delta=kind,
                in_collection=in_collection,
            )
        )
        return target

    def _remark(self, column: delta.StructField, name: str) -> None:
        for key, rule in _RULES.items():
            if key in column.metadata:
                self.findings.append(Finding(code=codes.RULE_NOT_ENFORCED, what=name, detail=rule))
        if _CHAR_KEY in column.metadata:
            detail = str(column.metadata[_CHAR_KEY])
            self.findings.append(Finding(code=codes.CHAR_LENGTH, what=name, detail=detail))
        if DEFAULT_KEY in column.metadata and str(column.metadata[DEFAULT_KEY]).strip().upper() != "NULL":
            text = str(column.metadata[DEFAULT_KEY])
            if _literal_default(column) is None:
                self.findings.append(Finding(code=codes.DEFAULT_NOT_LITERAL, what=name, detail=text))
            elif self.format_version < 3:
                self.findings.append(Finding(code=codes.DEFAULT_NEEDS_VERSION_3, what=name, detail=text))

    def _refuse(self, code: Code, names: Path, detail: str) -> None:
        self.findings.append(Finding(code=code, what=".".join(names), detail=detail))


@dataclass(kw_only=True)
class _Holder:
    """The struct field whose metadata also speaks for the lists and maps below it.

    steps: the way from the field to the type at hand (``element``, ``key`` ...).
    """

    physical_name: str
    steps: Path = ()
    nested_ids: dict[str, int] = field(default_factory=dict)
    changes: list[dict[str, object]] = field(default_factory=list)

    def below(self, step: str) -> _Holder:
        return replace(self, steps=(*self.steps, step))


@dataclass(kw_only=True)
class _ToDelta:
    mode: MappingMode
    physical_names: Mapping[int, str]
    type_changes: Mapping[int, tuple[TypeChangeEntry, ...]]
    type_mappings: Mapping[str, str]
    leaves: list[LeafPair] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    has_defaults: bool = False

    def struct(
        self, fields: tuple[ice.NestedField, ...], path: Path, names: Path, *, in_collection: bool
    ) -> tuple[delta.StructField, ...]:
        self._check_names(fields, names)
        result = []
        for column in fields:
            physical = (
                self.physical_names.get(column.field_id, column.name)
                if self.mode is not MappingMode.NONE
                else column.name
            )
            holder = _Holder(physical_name=physical)
            target = self._type(column, (*path, physical), (*names, column.name), in_collection, holder)
            metadata: dict[str, object] = {}
            if column.doc is not None:
                metadata["comment"] = column.doc
            self._default(column, names, metadata)
            if self.mode is not MappingMode.NONE:
                metadata[COLUMN_ID] = column.field_id
                metadata[PHYSICAL_NAME] = physical
                if holder.nested_ids:
                    metadata[NESTED_IDS] = holder.nested_ids
            if holder.changes:
                metadata[TYPE_CHANGES_KEY] = holder.changes
            nullable = not column.required or isinstance(target, delta.VoidType)
            result.append(delta.StructField(name=column.name, type=target, nullable=nullable, metadata=metadata))
        return tuple(result)

    def _type(
        self,
        column: ice.NestedField,
        path: Path,
        names: Path,
        in_collection: bool,
        holder: _Holder,
    ) -> delta.DeltaType:
        kind = column.type
        match kind:
            case ice.StructType(fields=fields):
                return delta.StructType(fields=self.struct(fields, path, names, in_collection=in_collection))
            case ice.ListType(element=element):
                return delta.ArrayType(
                    element_type=self._part(element, path, names, holder), contains_null=not element.required
                )
            case ice.MapType(key=key, value=value):
                return delta.MapType(
                    key_type=self._part(key, path, names, holder),
                    value_type=self._part(value, path, names, holder),
                    value_contains_null=not value.required,
                )
            case _:
                return self._leaf(column, path, names, in_collection, holder)

    def _part(self, part: ice.NestedField, path: Path, names: Path, holder: _Holder) -> delta.DeltaType:
        """A list's element, a map's key or value."""
        inner = holder.below(part.name)
        holder.nested_ids[".".join((holder.physical_name, *inner.steps))] = part.field_id
        return self._type(part, (*path, part.name), (*names, part.name), True, inner)

    def _leaf(
        self, column: ice.NestedField, path: Path, names: Path, in_collection: bool, holder: _Holder
    ) -> delta.DeltaType:
        target, mapped = iceberg_to_delta_type(column.type), False
        if target is None:
            name = mappable_name(column.type)
            choice = self.type_mappings.get(name) if name is not None else None
            target = TYPE_MAPPINGS[name].get(choice) if name is not None and choice is not None else None
            mapped = target is not None
            code = codes.TYPE_MAPPED if mapped else codes.TYPE_NOT_IN_DELTA
            self.findings.append(Finding(code=code, what=".".join(names), detail=ice.type_name(column.type)))
            target = target if target is not None else delta.BinaryType()
        steps = ".".join(holder.steps)
        holder.changes.extend(change.to_json(steps) for change in self.type_changes.get(column.field_id, ()))
        self.leaves.append(
            LeafPair(
                field_id=column.field_id,
                path=path,
                name=".".join(names),
                iceberg=column.type,
                delta=target,
                in_collection=in_collection,
                mapped=mapped,
            )
        )
        return target

    def _default(self, column: ice.NestedField, names: Path, metadata: dict[str, object]) -> None:
        if column.write_default is None:
            return
        try:
            metadata[DEFAULT_KEY] = iceberg_to_delta_default(column.write_default, column.type)
            self.has_defaults = True
        except LiteralError as error:
            what = ".".join((*names, column.name))
            self.findings.append(Finding(code=codes.DEFAULT_NOT_LITERAL, what=what, detail=str(error)))

    def _check_names(self, fields: tuple[ice.NestedField, ...], names: Path) -> None:
        seen: dict[str, str] = {}
        for column in fields:
            other = seen.setdefault(column.name.lower(), column.name)
            if other != column.name:
                what = ".".join((*names, column.name))
                self.findings.append(Finding(code=codes.NAMES_BY_CASE, what=what, detail=f"{other}, {column.name}"))


def _literal_default(column: delta.StructField) -> object:
    """The JSON single value of a literal default; None where there is none, or where it is no literal."""
    text = column.metadata.get(DEFAULT_KEY)
    target = delta_to_iceberg_type(column.type)
    if not isinstance(text, str) or target is None:
        return None
    try:
        return delta_to_iceberg_default(text, target)
    except LiteralError:
        return None


def _delta_name(kind: delta.DeltaType) -> str:
    return str(delta_type_to_json(kind))


def _delta_leaves(
    kind: delta.DeltaType, path: Path, column: delta.StructField | None = None
) -> Iterator[tuple[Path, delta.DeltaType, delta.StructField | None]]:
    match kind:
        case delta.StructType(fields=fields):
            for each in fields:
                yield from _delta_leaves(each.type, (*path, each.name), each)
        case delta.ArrayType(element_type=element):
            yield from _delta_leaves(element, (*path, "element"))
        case delta.MapType(key_type=key, value_type=value):
            yield from _delta_leaves(key, (*path, "key"))
            yield from _delta_leaves(value, (*path, "value"))
        case _:
            yield path, kind, column
