"""The non-file actions of the log as values: metaData, txn, domainMetadata, commitInfo. PROTOCOL "Actions".

``add`` and ``remove`` are never objects: they are rows of ``deltaberg.delta.log.file_actions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.protocol.table_properties import TableProperties
from deltaberg.delta.schema.schema import parse_schema
from deltaberg.delta.schema.types import ArrayType, MapType, StructType, VariantType


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How data files are encoded; ``parquet`` is the only provider that tables may have."""

    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The ``metaData`` action. ``created_time`` in milliseconds since 1970."""

    id: str
    schema_string: str
    schema: StructType
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict, hash=False)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    format: Format = field(default_factory=Format)

    @property
    def properties(self) -> TableProperties:
        return TableProperties(configuration=self.configuration)

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Metadata:
        """The action from its JSON object.

        Raises CorruptLog naming the field that is missing or malformed, UnsupportedDeltaFeature for a type or file
        format that is not in the protocol.
        """
        what = "metaData"
        schema_string = _text(value, "schemaString", what)
        schema = parse_schema(schema_string)
        partition_columns = _texts(value, "partitionColumns", what)
        _check_partition_columns(schema, partition_columns)
        return Metadata(
            id=_text(value, "id", what),
            schema_string=schema_string,
            schema=schema,
            partition_columns=partition_columns,
            configuration=_text_map(value, "configuration", what),
            name=_optional_text(value, "name", what),
            description=_optional_text(value, "description", what),
            created_time=_optional_number(value, "createdTime", what),
            format=_format(value),
        )

    def to_json(self) -> dict[str, object]:
        """The action's JSON object; absent fields are left out."""
        optional = {"name": self.name, "description": self.description}
        value: dict[str, object] = {
            "id": self.id,
            **{key: text for key, text in optional.items() if text is not None},
            "format": {"provider": self.format.provider, "options": dict(self.format.options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
        }
        if self.created_time is not None:
            value["createdTime"] = self.created_time
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Txn:
    """A ``txn`` action: how far an application has come. ``last_updated`` in milliseconds since 1970."""

    app_id: str
    version: int
    last_updated: int | None = None

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Txn:
        """The action from its JSON object. Raises CorruptLog naming the malformed field."""
        return Txn(
            app_id=_text(value, "appId", "txn"),
            version=_number(value, "version", "txn"),
            last_updated=_optional_number(value, "lastUpdated", "txn"),
        )

    def to_json(self) -> dict[str, object]:
        """The action's JSON object."""
        value: dict[str, object] = {"appId": self.app_id, "version": self.version}
        return value if self.last_updated is None else {**value, "lastUpdated": self.last_updated}


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata:
    """A ``domainMetadata`` action; ``removed`` marks a tombstone, which snapshots leave out."""

    domain: str
    configuration: str
    removed: bool = False

    @property
    def is_system_controlled(self) -> bool:
        return self.domain.startswith("delta.")

    @staticmethod
    def from_json(value: Mapping[str, object]) -> DomainMetadata:
        """The action from its JSON object. Raises CorruptLog naming the malformed field."""
        removed = value.get("removed", False)
        if removed is not None and not isinstance(removed, bool):
            raise _malformed("domainMetadata", "removed", removed, "true or false")
        return DomainMetadata(
            domain=_text(value, "domain", "domainMetadata"),
            configuration=_optional_text(value, "configuration", "domainMetadata") or "",
            removed=bool(removed),
        )

    def to_json(self) -> dict[str, object]:
        """The action's JSON object."""
        return {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo:
    """A ``commitInfo`` action: free-form provenance, kept whole in ``raw``. Timestamps in milliseconds since 1970."""

    raw: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def timestamp(self) -> int | None:
        return self._number("timestamp")

    @property
    def in_commit_timestamp(self) -> int | None:
        return self._number("inCommitTimestamp")

    @property
    def operation(self) -> str | None:
        value = self.raw.get("operation")
        return value if isinstance(value, str) else None

    @property
    def operation_metrics(self) -> Mapping[str, object]:
        return self._mapping("operationMetrics")

    @property
    def engine_info(self) -> str | None:
        value = self.raw.get("engineInfo")
        return value if isinstance(value, str) else None

    def _number(self, key: str) -> int | None:
        value = self.raw.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _mapping(self, key: str) -> Mapping[str, object]:
        value = self.raw.get(key)
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A ``sidecar`` action of a V2 checkpoint: a Parquet file with file actions."""

    path: str
    size_in_bytes: int
    modification_time: int

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Sidecar:
        """The action from its JSON object. Raises CorruptLog naming the malformed field."""
        return Sidecar(
            path=_text(value, "path", "sidecar"),
            size_in_bytes=_number(value, "sizeInBytes", "sidecar"),
            modification_time=_number(value, "modificationTime", "sidecar"),
        )


def _format(value: Mapping[str, object]) -> Format:
    found = value.get("format")
    if found is None:
        return Format()
    if not isinstance(found, Mapping):
        raise _malformed("metaData", "format", found, "an object")
    provider = found.get("provider")
    if not isinstance(provider, str):
        raise _malformed("metaData", "format.provider", provider, "text")
    if provider.lower() != "parquet":
        raise UnsupportedDeltaFeature(
            f"Cannot read the table: its files are {provider!r} (expected parquet)", feature=f"format {provider}"
        )
    return Format(provider=provider, options=_text_map(found, "options", "metaData.format"))


def _check_partition_columns(schema: StructType, partition_columns: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for name in partition_columns:
        if name not in schema:
            raise CorruptLog(f"Cannot read metaData: the partition column {name!r} is not in the schema")
        if name in seen:
            raise CorruptLog(f"Cannot read metaData: the partition column {name!r} is listed twice")
        seen.add(name)
        if isinstance(schema.field(name).type, (StructType, ArrayType, MapType, VariantType)):
            raise CorruptLog(f"Cannot read metaData: the partition column {name!r} is not of a primitive type")


def _malformed(what: str, key: str, value: object, expected: str) -> CorruptLog:
    if value is None:
        return CorruptLog(f"Cannot read {what}: {key} is missing (expected {expected})")
    return CorruptLog(f"Cannot read {what}: {key} is {value!r:.100} (expected {expected})")


def _text(value: Mapping[str, object], key: str, what: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        raise _malformed(what, key, found, "text")
    return found


def _optional_text(value: Mapping[str, object], key: str, what: str) -> str | None:
    return None if value.get(key) is None else _text(value, key, what)


def _number(value: Mapping[str, object], key: str, what: str) -> int:
    found = value.get(key)
    if not isinstance(found, int) or isinstance(found, bool) or not -(2**63) <= found < 2**63:
        raise _malformed(what, key, found, "a 64-bit number")
    return found


def _optional_number(value: Mapping[str, object], key: str, what: str) -> int | None:
    return None if value.get(key) is None else _number(value, key, what)


def _texts(value: Mapping[str, object], key: str, what: str) -> tuple[str, ...]:
    found = value.get(key)
    if found is None:
        return ()
    if not isinstance(found, (list, tuple)) or not all(isinstance(each, str) for each in found):
        raise _malformed(what, key, found, "a list of texts")
    return tuple(found)


def _text_map(value: Mapping[str, object], key: str, what: str) -> Mapping[str, str]:
    found = value.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise _malformed(what, key, found, "an object")
    result: dict[str, str] = {}
    for name, text in found.items():
        if text is None:
            continue
        if not isinstance(text, str):
            raise _malformed(what, f"{key}.{name}", text, "text")
        result[str(name)] = text
    return result
