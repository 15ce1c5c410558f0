"""Avro schemas as trees that carry Iceberg's field ids (Appendix A, "Avro": "Field IDs").

Only what the bytes and the ids need is kept: names serve as messages, docs and defaults are dropped. Schemas come
from other writers, so every limit here stands between a hostile header and the memory of this process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from deltaberg.iceberg.errors import CorruptMetadata

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_DEPTH: Final = 64
MAX_NODES: Final = 100_000
MAX_FIXED: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroScalar:
    """A primitive, ``fixed`` (``size`` bytes) or ``enum`` (``size`` symbols) type."""

    kind: str
    size: int = 0
    logical: str | None = None
    precision: int = 38
    scale: int = 0
    adjust_to_utc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroField:
    """A record's field; ``field_id`` is None where the writer gave none."""

    name: str
    type: AvroType
    field_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroRecord:
    """Fields one after the other."""

    name: str
    fields: tuple[AvroField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroArray:
    """Blocks of items. ``is_map``: logical type ``map``, whose items are records of a key and a value."""

    items: AvroType
    element_id: int | None = None
    is_map: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroMap:
    """Blocks of string keys and values."""

    values: AvroType
    key_id: int | None = None
    value_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroUnion:
    """One of several types, chosen by a leading index."""

    branches: tuple[AvroType, ...]


AvroType: TypeAlias = AvroScalar | AvroRecord | AvroArray | AvroMap | AvroUnion


@lru_cache(maxsize=64)
def parse_avro_schema(text: bytes | str) -> AvroType:
    """The tree of an ``avro.schema`` header; CorruptMetadata names the place in it that is not an Avro schema."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadata(f"Cannot read Avro schema: it is not JSON ({error})", field="avro.schema") from error
    return _Parser().parse(value, "avro.schema", 0)


def with_prefixed_fixed(avro: AvroType) -> AvroType:
    """The schema as Iceberg's Java library means it from version 1.8 on: it writes (and reads) plain ``fixed`` values
    in metadata like ``bytes``, with a length before them, which the Avro specification does not allow."""
    match avro:
        case AvroScalar(kind="fixed", logical=None):
            return AvroScalar(kind="bytes")
        case AvroRecord():
            fields = tuple(replace(each, type=with_prefixed_fixed(each.type)) for each in avro.fields)
            return replace(avro, fields=fields)
        case AvroArray():
            return replace(avro, items=with_prefixed_fixed(avro.items))
        case AvroMap():
            return replace(avro, values=with_prefixed_fixed(avro.values))
        case AvroUnion():
            return AvroUnion(branches=tuple(with_prefixed_fixed(each) for each in avro.branches))
        case _:
            return avro


class _Parser:
    """Resolves named types as it goes; ``nodes`` counts every type once per use, as a decoder would meet it."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[AvroType, int]] = {}
        self.nodes = 0

    def parse(self, value: object, at: str, depth: int) -> AvroType:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > MAX_NODES:
            raise CorruptMetadata(
                f"Cannot read Avro schema at {at}: it is too large "
                f"(expected at most {MAX_DEPTH} levels and {MAX_NODES} types)",
                field=at,
            )
        if isinstance(value, str):
            return self._named(value, at)
        if isinstance(value, list):
            if not value:
                raise _invalid(at, "a union with at least one branch", value)
            return AvroUnion(branches=tuple(self.parse(each, f"{at}[{i}]", depth + 1) for i, each in enumerate(value)))
        if not isinstance(value, dict):
            raise _invalid(at, "a type name, a union or an object", value)
        kind = value.get("type")
        if isinstance(kind, list | dict):
            return self.parse(kind, f"{at}.type", depth + 1)
        if not isinstance(kind, str):
            raise _invalid(f"{at}.type", "a type name", kind)
        return self._object(kind, value, at, depth)

    def _named(self, name: str, at: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroScalar(kind=name)
        found = self.named.get(name)
        if found is None:
            raise _invalid(at, "a primitive type or one that is defined before", name)
        self.nodes += found[1]
        return found[0]

    def _object(self, kind: str, value: dict[str, object], at: str, depth: int) -> AvroType:
        if kind in ("record", "error"):
            return self._record(value, at, depth)
        if kind == "array":
            items = self.parse(value.get("items"), f"{at}.items", depth + 1)
            return AvroArray(
                items=items,
                element_id=_optional_id(value, "element-id", at),
                is_map=value.get("logicalType") == "map",
            )
        if kind == "map":
            return AvroMap(
                values=self.parse(value.get("values"), f"{at}.values", depth + 1),
                key_id=_optional_id(value, "key-id", at),
                value_id=_optional_id(value, "value-id", at),
            )
        if kind == "fixed":
            size = value.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_FIXED:
                raise _invalid(f"{at}.size", f"a size from 0 to {MAX_FIXED}", size)
            return self._define(value, at, _scalar("fixed", value, size=size), 1)
        if kind == "enum":
            symbols = value.get("symbols")
            if not isinstance(symbols, list):
                raise _invalid(f"{at}.symbols", "a list of symbols", symbols)
            return self._define(value, at, AvroScalar(kind="enum", size=len(symbols)), 1)
        if kind in PRIMITIVES:
            return _scalar(kind, value)
        return self._named(kind, f"{at}.type")

    def _record(self, value: dict[str, object], at: str, depth: int) -> AvroType:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise _invalid(f"{at}.fields", "a list of fields", fields)
        before = self.nodes
        parsed = []
        for i, each in enumerate(fields):
            here = f"{at}.fields[{i}]"
            if not isinstance(each, dict) or not isinstance(each.get("name"), str):
                raise _invalid(here, "a field with a name and a type", each)
            kind = self.parse(each.get("type"), f"{at}.{each['name']}", depth + 1)
            parsed.append(AvroField(name=each["name"], type=kind, field_id=_optional_id(each, "field-id", here)))
        name = value.get("name")
        record = AvroRecord(name=name if isinstance(name, str) else "", fields=tuple(parsed))
        return self._define(value, at, record, self.nodes - before)

    def _define(self, value: dict[str, object], at: str, kind: AvroType, nodes: int) -> AvroType:
        name = value.get("name")
        if not isinstance(name, str) or not name:
            raise _invalid(f"{at}.name", "a name", name)
        self.named[name] = (kind, nodes)
        space = value.get("namespace")
        if isinstance(space, str) and space:
            self.named[f"{space}.{name}"] = (kind, nodes)
        return kind


def _optional_id(value: dict[str, object], key: str, at: str) -> int | None:
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool):
        raise _invalid(f"{at}.{key}", "an integer", found)
    return found


def _scalar(kind: str, value: dict[str, object], *, size: int = 0) -> AvroScalar:
    logical = value.get("logicalType")
    precision, scale = value.get("precision"), value.get("scale", 0)
    if logical == "decimal" and not (_whole(precision, 1, 38) and _whole(scale, 0, 38)):
        logical = None
    return AvroScalar(
        kind=kind,
        size=size,
        logical=logical if isinstance(logical, str) else None,
        precision=precision if isinstance(precision, int) and logical == "decimal" else 38,
        scale=scale if isinstance(scale, int) and logical == "decimal" else 0,
        adjust_to_utc=value.get("adjust-to-utc") is True,
    )


def _whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _invalid(at: str, expected: str, found: object) -> CorruptMetadata:
    shown = repr(found)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    return CorruptMetadata(f"Cannot read Avro schema at {at}: expected {expected}, found {shown}", field=at)
