"""A description of a table: format, schema, partitioning, features, counts, deletes, size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deltaberg.migrate.plan_report import PlanItem


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDescription:
    """One top-level column in readable form; ``type`` is the format's own type text."""

    name: str
    type: str
    nullable: bool
    field_id: int | None = None
    comment: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "nullable": self.nullable,
            "field_id": self.field_id,
            "comment": self.comment,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """One state of one table.

    version: the Delta version or the Iceberg snapshot id (None for an empty Iceberg table).
    format_version: ``"3"`` for Iceberg, ``"reader 3, writer 7"`` for Delta. partitioning: ``"day(ts)"``, ``"p"``. rows:
    live rows, deletes applied; None where a file's count can only be read from its footer.
    deletes: ``{"vectors", "position", "equality", "rows"}``. position: the source position, where deltaberg wrote it.
    properties: without values that are secrets. warnings: folders outside the table's own under which files lie; coded like a
    plan's items.
    """

    format: str
    location: str
    name: str | None
    uuid: str
    version: int | None
    timestamp_ms: int | None
    format_version: str
    features: tuple[str, ...]
    columns: tuple[ColumnDescription, ...]
    partitioning: tuple[str, ...]
    files: int
    rows: int | None
    bytes: int
    deletes: dict[str, int]
    properties: dict[str, str] = field(default_factory=dict)
    position: dict[str, Any] | None = None
    warnings: tuple[PlanItem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "format": self.format,
            "location": self.location,
            "name": self.name,
            "uuid": self.uuid,
            "version": self.version,
            "timestamp_ms": self.timestamp_ms,
            "format_version": self.format_version,
            "features": list(self.features),
            "columns": [column.to_json() for column in self.columns],
            "partitioning": list(self.partitioning),
            "files": self.files,
            "rows": self.rows,
            "bytes": self.bytes,
            "deletes": self.deletes,
            "properties": self.properties,
            "position": self.position,
            "warnings": [item.to_json() for item in self.warnings],
        }
