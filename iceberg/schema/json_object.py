"""Typed access to a parsed JSON object that knows its path, for the JSON forms of Appendix C.

Every accessor raises CorruptMetadata with the JSON path of the offending value; null counts as absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import NoReturn, TypeVar

from deltaberg.iceberg.errors import CorruptMetadata

_INT_MAX = 2**31 - 1
_INT_MIN = -(2**31)
_LONG_MAX = 2**63 - 1
_LONG_MIN = -(2**63)
# As signed number it would be -1, which says that there is no snapshot.
_UNSIGNED_NO_SNAPSHOT = 2**64 - 1
_SHOWN = 60
_T = TypeVar("_T")


def shown(value: object) -> str:
    """A value as an error message shows it: JSON, cut short."""
    try:
        text = json.dumps(value, ensure_ascii=True, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def rejected(path: str, expected: str, found: object) -> CorruptMetadata:
    """The error to raise for the value at a JSON path."""
    return CorruptMetadata(
        f"Cannot read {path}: expected {expected}, found {shown(found)}; the metadata is corrupt", field=path
    )


def as_int(value: object, path: str, *, low: int = _INT_MIN, high: int = _INT_MAX) -> int:
    """A JSON integer within bounds (32-bit by default)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise rejected(path, "an integer", value)
    if not low <= value <= high:
        raise rejected(path, f"an integer from {low} to {high}", value)
    return value


def as_long(value: object, path: str, *, low: int = _LONG_MIN) -> int:
    """A JSON integer that fits in 64 bits."""
    return as_int(value, path, low=low, high=_LONG_MAX)


def signed_snapshot_id(value: int) -> int:
    """The signed form of a snapshot id. Ids are 64-bit longs, and some writers state the same bits as an unsigned number."""
    return value - 2**64 if _LONG_MAX < value < _UNSIGNED_NO_SNAPSHOT else value


def as_text(value: object, path: str) -> str:
    """A JSON string that is valid Unicode (no lone surrogate)."""
    if not isinstance(value, str):
        raise rejected(path, "a string", value)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise rejected(path, "a string of valid Unicode", value) from error
    return value


def as_bool(value: object, path: str) -> bool:
    """A JSON boolean."""
    if not isinstance(value, bool):
        raise rejected(path, "true or false", value)
    return value


def as_list(value: object, path: str) -> list[object]:
    """A JSON array."""
    if not isinstance(value, list):
        raise rejected(path, "a list", value)
    return value


class JsonObject:
    """One JSON object: ``values`` by key and the JSON ``path`` at which it stands."""

    __slots__ = ("path", "values")

    def __init__(self, value: object, path: str = "$") -> None:
        if not isinstance(value, Mapping):
            raise rejected(path, "an object", value)
        self.values: Mapping[str, object] = value
        self.path = path

    def at(self, key: str) -> str:
        """The JSON path of a key."""
        return f"{self.path}.{key}"

    def has(self, key: str) -> bool:
        """True when the key is there and not null."""
        return self.values.get(key) is not None

    def raw(self, key: str) -> object:
        """The value of a required key."""
        value = self.values.get(key)
        if value is None:
            raise CorruptMetadata(
                f"Cannot read {self.at(key)}: the required field is missing; the metadata is corrupt",
                field=self.at(key),
            )
        return value

    def integer(self, key: str, *, low: int = _INT_MIN) -> int:
        return as_int(self.raw(key), self.at(key), low=low)

    def optional_integer(self, key: str, *, low: int = _INT_MIN) -> int | None:
        return self.integer(key, low=low) if self.has(key) else None

    def long(self, key: str, *, low: int = _LONG_MIN) -> int:
        return as_long(self.raw(key), self.at(key), low=low)

    def optional_long(self, key: str, *, low: int = _LONG_MIN) -> int | None:
        return self.long(key, low=low) if self.has(key) else None

    def snapshot_id(self, key: str) -> int:
        """A snapshot id in its signed form."""
        value = self.raw(key)
        return as_long(signed_snapshot_id(value) if isinstance(value, int) else value, self.at(key))

    def optional_snapshot_id(self, key: str) -> int | None:
        return self.snapshot_id(key) if self.has(key) else None

    def text(self, key: str) -> str:
        return as_text(self.raw(key), self.at(key))

    def optional_text(self, key: str) -> str | None:
        return self.text(key) if self.has(key) else None

    def boolean(self, key: str) -> bool:
        return as_bool(self.raw(key), self.at(key))

    def child(self, key: str) -> JsonObject:
        return JsonObject(self.raw(key), self.at(key))

    def items(self, key: str) -> Iterator[tuple[object, str]]:
        """The elements of a required list with their JSON paths."""
        path = self.at(key)
        for position, value in enumerate(as_list(self.raw(key), path)):
            yield value, f"{path}[{position}]"

    def optional_items(self, key: str) -> Iterator[tuple[object, str]]:
        """The elements of a list, none when it is absent."""
        if self.has(key):
            yield from self.items(key)

    def integers(self, key: str) -> tuple[int, ...]:
        """The 32-bit integers of a list, none when it is absent."""
        return tuple(as_int(value, path) for value, path in self.optional_items(key))

    def text_map(self, key: str) -> dict[str, str]:
        """A map from string to string, empty when absent."""
        if not self.has(key):
            return {}
        entries = self.child(key)
        return {as_text(name, entries.path): entries.text(name) for name in entries.values}

    def extra(self, known: frozenset[str]) -> dict[str, object]:
        """The fields that no version of the specification names, as they stand."""
        return {key: value for key, value in self.values.items() if key not in known}


def _object_without_duplicates(pairs: list[tuple[str, _T]]) -> dict[str, _T]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CorruptMetadata(f"Cannot read JSON: the key {shown(key)} occurs twice in one object", field=key)
            seen.add(key)
    return result


def _reject_constant(name: str) -> NoReturn:
    raise CorruptMetadata(f"Cannot read JSON: {name} is not a JSON value")


def parse_json(data: bytes) -> object:
    """Parse strict JSON (UTF-8, no duplicate keys, no NaN); raises CorruptMetadata and nothing else."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CorruptMetadata(f"Cannot read JSON: byte {error.start} is not valid UTF-8") from error
    try:
        return json.loads(text, object_pairs_hook=_object_without_duplicates, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise CorruptMetadata(
            f"Cannot read JSON: {error.msg} at line {error.lineno} column {error.colno}; the file is truncated or no JSON"
        ) from error
    except RecursionError as error:
        raise CorruptMetadata("Cannot read JSON: it is nested too deeply") from error
    except ValueError as error:
        raise CorruptMetadata(f"Cannot read JSON: {error}") from error
