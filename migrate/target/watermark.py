"""The watermark of a target: which state of which source it holds, in one text kept with the data it describes.

A Delta target has it in ``metaData.configuration`` beside a ``txn`` action, an Iceberg target in the table's properties
and the snapshot's summary; both are committed together with the files. A watermark never is a time of day.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from deltaberg.errors import Conflict
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, TableFormat

APP_ID_PREFIX: Final = "deltaberg:"
WATERMARK_KEY: Final = "deltaberg.source.position"
TARGET_VERSION_KEY: Final = "deltaberg.target.version"
OPTIONS_KEY: Final = "deltaberg.options"
PLAN_KEY: Final = "deltaberg.plan"
"""The plan document that a target was written by, relative to its folder; no two conversions have one of the same name."""
SOURCE_VERSION_KEY: Final = "deltaberg.source.version"
"""In a snapshot's summary or a commit's info: the source version that this one commit stands for."""
RUN_KEY: Final = "deltaberg.run"
"""In a snapshot's summary or a commit's info: the sync that committed it, whose own names its files have. What a conversion
commits is found by the name of its plan document."""

LINEAGE_KEY: Final = "deltaberg.source.row-ids"
"""In a snapshot's summary: ``carried`` where its files have the source's row ids."""
STREAMS_KEY: Final = "deltaberg.delta.transactions"
"""In a snapshot's summary: how far streams had written to the source with that commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """One state of one source table.

    uuid: the source table's identity. version: Delta version or Iceberg snapshot id, None for an Iceberg table
    without snapshot. schema_id, ref: Iceberg only; a schema can change without a snapshot.
    fingerprint: distinguishes the state from another one with these numbers in a copy of the table that diverged: of
    the version's commit in Delta, of the schema in Iceberg, where the snapshot id does the rest. None where it is not
    known: the commit is gone from the log, or version 0.1.0 wrote the target.
    """

    format: TableFormat
    uuid: str
    version: int | None
    ref: str | None = None
    schema_id: int | None = None
    fingerprint: str | None = None

    def at(self, version: int) -> Watermark:
        """The watermark of the same source at another version."""
        return replace(self, version=version, fingerprint=self.fingerprint if version == self.version else None)

    def is_same_state(self, other: Watermark) -> bool:
        """Whether both are one state, as far as is known of both."""
        unlike = None not in (self.fingerprint, other.fingerprint) and self.fingerprint != other.fingerprint
        return replace(self, fingerprint=other.fingerprint) == other and not unlike

    @property
    def app_id(self) -> str:
        """The ``appId`` of a Delta target's ``txn`` action: the source and the branch."""
        branch = f":{self.ref}" if self.ref else ""
        return f"{APP_ID_PREFIX}{self.format.value}:{self.uuid}{branch}"

    def to_json(self) -> dict[str, Any]:
        """The watermark as the properties hold it."""
        value: dict[str, Any] = {"format": self.format.value, "uuid": self.uuid, "version": self.version}
        if self.ref is not None:
            value["ref"] = self.ref
        if self.schema_id is not None:
            value["schema-id"] = self.schema_id
        if self.fingerprint is not None:
            value["fingerprint"] = self.fingerprint
        return value

    def to_text(self) -> str:
        """``to_json`` as text; equal watermarks have equal texts."""
        return json.dumps(self.to_json(), separators=(",", ":"), sort_keys=True)

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> Watermark | None:
        """The watermark in a target's properties; None where deltaberg did not write the table.

        Raises Conflict where the property is not in the form that deltaberg writes.
        """
        text = properties.get(WATERMARK_KEY)
        if text is None:
            return None
        try:
            value = json.loads(text)
            version = value["version"]
            return Watermark(
                format=TableFormat(value["format"]),
                uuid=str(value["uuid"]),
                version=None if version is None else int(version),
                ref=value.get("ref"),
                schema_id=value.get("schema-id"),
                fingerprint=value.get("fingerprint"),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Conflict(
                f"Cannot read the target's property {WATERMARK_KEY}: it is {text!r:.200} "
                "(expected what deltaberg writes); take another target"
            ) from error

    def describe(self) -> str:
        """``version 12 of delta table <uuid>``."""
        what = "version" if self.format is TableFormat.DELTA else "snapshot"
        return f"{what} {self.version} of {self.format.value} table {self.uuid}"


def schema_fingerprint(schema: Schema) -> str:
    """A fingerprint that distinguishes schemas of one id: copies of a table that diverged can have both."""
    return hashlib.sha256(json.dumps(schema.to_json(), sort_keys=True).encode()).hexdigest()


def watermark_of(source: Source) -> Watermark:
    """The watermark that a target of this source reaches."""
    match source:
        case IcebergSource():
            snapshot = source.snapshot
            schema = source.schema
            return Watermark(
                format=TableFormat.ICEBERG,
                uuid=source.table.metadata.table_uuid or source.table.metadata.location,
                version=None if snapshot is None else snapshot.snapshot_id,
                ref=source.ref,
                schema_id=schema.schema_id,
                fingerprint=schema_fingerprint(schema),
            )
        case DeltaSource():
            return Watermark(
                format=TableFormat.DELTA,
                uuid=source.snapshot.metadata.id,
                version=source.snapshot.version,
                fingerprint=source.snapshot.commit_fingerprint,
            )


def describe_source(source: Source) -> dict[str, Any]:
    """The table and state that a plan or report is about."""
    watermark = watermark_of(source)
    return {
        "format": source.format.value,
        "location": source.location,
        "uuid": watermark.uuid,
        "version": watermark.version,
        **({"ref": watermark.ref} if watermark.ref is not None else {}),
    }
