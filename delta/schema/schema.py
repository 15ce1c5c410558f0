"""``metaData.schemaString``: the JSON form of a table's schema. PROTOCOL "Schema Serialization Format"."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from deltaberg.delta.errors import CorruptLog, DeltaError, UnsupportedDeltaFeature
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    MapType,
    StringType,
    StructField,
    StructType,
    parse_type_name,
    type_name,
)

_COLLATIONS = "__COLLATIONS"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_MAX_DEPTH = 200


def parse_schema(schema_string: str) -> StructType:
    """The schema of a ``schemaString``.

    Raises CorruptLog naming the field for malformed JSON, missing keys or a name that occurs twice in a struct, and
    UnsupportedDeltaFeature for a type that is not in the protocol.
    """
    try:
        value = json.loads(schema_string)
    except (ValueError, RecursionError) as error:
        raise CorruptLog(f"Cannot read the table's schema: schemaString is not JSON ({error})") from error
    parsed = _parse_type(value, "schemaString", 0, {})
    if not isinstance(parsed, StructType):
        raise CorruptLog("Cannot read the table's schema: schemaString is not a struct")
    return parsed


def schema_to_json(schema: StructType) -> str:
    """The ``schemaString`` of a schema; ``parse_schema`` reads it back, metadata included."""
    return json.dumps(type_to_json(schema), separators=(",", ":"), ensure_ascii=False)


def type_to_json(delta_type: DeltaType) -> object:
    """The JSON value of a type, as it stands inside a schema string."""
    match delta_type:
        case StructType(fields=fields):
            return {"type": "struct", "fields": [_field_to_json(each) for each in fields]}
        case ArrayType(element_type=element, contains_null=contains_null):
            return {"type": "array", "elementType": type_to_json(element), "containsNull": contains_null}
        case MapType(key_type=key, value_type=value, value_contains_null=value_contains_null):
            return {
                "type": "map",
                "keyType": type_to_json(key),
                "valueType": type_to_json(value),
                "valueContainsNull": value_contains_null,
            }
        case _:
            return type_name(delta_type)


def walk_fields(schema: StructType) -> Iterator[tuple[tuple[str, ...], StructField]]:
    """Every struct field, outer before inner, with its path of logical names.

    Steps through arrays and maps are ``element``, ``key`` and ``value``.
    """
    yield from _walk(schema, ())


def _walk(delta_type: DeltaType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], StructField]]:
    match delta_type:
        case StructType(fields=fields):
            for each in fields:
                yield (*path, each.name), each
                yield from _walk(each.type, (*path, each.name))
        case ArrayType(element_type=element):
            yield from _walk(element, (*path, "element"))
        case MapType(key_type=key, value_type=value):
            yield from _walk(key, (*path, "key"))
            yield from _walk(value, (*path, "value"))


def _field_to_json(field: StructField) -> dict[str, object]:
    metadata = dict(field.metadata)
    collations = dict(_collations(field.type, ()))
    if collations:
        known = _own_collations(field.name, metadata)
        own = str(metadata.get(_PHYSICAL_NAME, field.name))
        stated = metadata.get(_COLLATIONS)
        missing = {".".join((own, *path)): name for path, name in collations.items() if ".".join(path) not in known}
        metadata[_COLLATIONS] = {**(stated if isinstance(stated, dict) else {}), **missing}
    return {"name": field.name, "type": type_to_json(field.type), "nullable": field.nullable, "metadata": metadata}


def _collations(delta_type: DeltaType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Collations of a field's strings, by path relative to it; structs state those of their fields themselves."""
    match delta_type:
        case StringType(collation=collation) if collation is not None:
            yield path, collation
        case ArrayType(element_type=element):
            yield from _collations(element, (*path, "element"))
        case MapType(key_type=key, value_type=value):
            yield from _collations(key, (*path, "key"))
            yield from _collations(value, (*path, "value"))


def _own_collations(name: str, metadata: Mapping[str, object]) -> dict[str, str]:
    """The entries of a field's metadata, by path relative to it. Keys begin with its name or its physical name."""
    found = metadata.get(_COLLATIONS)
    result = {}
    for path, collation in found.items() if isinstance(found, dict) else ():
        for own in (name, str(metadata.get(_PHYSICAL_NAME, name))):
            if path == own or str(path).startswith(f"{own}."):
                result[str(path).removeprefix(own).removeprefix(".")] = str(collation)
                break
    return result


def _parse_type(value: object, where: str, depth: int, collations: Mapping[str, str]) -> DeltaType:
    """``collations``: names by path relative to this type, the type's own under the empty path."""
    if depth > _MAX_DEPTH:
        raise CorruptLog(f"Cannot read the table's schema: {where} is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, str):
        try:
            parsed = parse_type_name(value)
        except DeltaError as error:
            error.message = f"{error.message} (at {where})"
            raise
        return StringType(collation=collations.get("")) if isinstance(parsed, StringType) else parsed
    if not isinstance(value, dict):
        raise CorruptLog(f"Cannot read the table's schema: {where} is {value!r} (expected a type)")
    match value.get("type"):
        case "struct":
            return _parse_struct(value, where, depth)
        case "array":
            element = _parse_type(
                _required(value, "elementType", where), f"{where}.element", depth + 1, _below(collations, "element")
            )
            return ArrayType(element_type=element, contains_null=_boolean(value, "containsNull", where))
        case "map":
            key = _parse_type(_required(value, "keyType", where), f"{where}.key", depth + 1, _below(collations, "key"))
            item = _parse_type(
                _required(value, "valueType", where), f"{where}.value", depth + 1, _below(collations, "value")
            )
            return MapType(
                key_type=key, value_type=item, value_contains_null=_boolean(value, "valueContainsNull", where)
            )
        case "udt":
            raise UnsupportedDeltaFeature(
                f"Cannot read the user-defined type of {where}: its meaning lies in code outside the table",
                feature="type udt",
            )
        case other:
            raise CorruptLog(
                f"Cannot read the table's schema: {where} has the type {other!r} (expected struct, array or map)"
            )


def _parse_struct(value: dict[str, object], where: str, depth: int) -> StructType:
    fields = value.get("fields")
    if not isinstance(fields, list):
        raise CorruptLog(f"Cannot read the table's schema: the struct {where} has no list of fields")
    parsed = tuple(_parse_field(each, where, depth) for each in fields)
    seen: set[str] = set()
    for each in parsed:
        if each.name in seen:
            raise CorruptLog(f"Cannot read the table's schema: {where} has the field {each.name!r} twice")
        seen.add(each.name)
    return StructType(fields=parsed)


def _parse_field(value: object, where: str, depth: int) -> StructField:
    if not isinstance(value, dict):
        raise CorruptLog(f"Cannot read the table's schema: a field of {where} is {value!r} (expected an object)")
    name = value.get("name")
    if not isinstance(name, str):
        raise CorruptLog(f"Cannot read the table's schema: a field of {where} has no name")
    metadata = value.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise CorruptLog(f"Cannot read the table's schema: the metadata of {where}.{name} is {metadata!r}")
    paths = _own_collations(name, metadata)
    return StructField(
        name=name,
        type=_parse_type(_required(value, "type", f"{where}.{name}"), f"{where}.{name}", depth + 1, paths),
        nullable=_boolean(value, "nullable", f"{where}.{name}"),
        metadata=metadata,
    )


def _below(collations: Mapping[str, str], step: str) -> dict[str, str]:
    return {
        path.removeprefix(step).removeprefix("."): name
        for path, name in collations.items()
        if path == step or path.startswith(f"{step}.")
    }


def _required(value: dict[str, object], key: str, where: str) -> object:
    if key not in value:
        raise CorruptLog(f"Cannot read the table's schema: {where} has no {key}")
    return value[key]


def _boolean(value: dict[str, object], key: str, where: str) -> bool:
    flag = value.get(key, True)
    if not isinstance(flag, bool):
        raise CorruptLog(f"Cannot read the table's schema: {key} of {where} is {flag!r} (expected true or false)")
    return flag
