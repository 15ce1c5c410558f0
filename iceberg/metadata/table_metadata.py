"""Table metadata: the content of one metadata file (section "Table Metadata Fields")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from deltaberg.iceberg.errors import CorruptMetadata, InvalidIcebergRequest
from deltaberg.iceberg.metadata.encryption_key import EncryptionKey
from deltaberg.iceberg.metadata.snapshot import Snapshot, SnapshotLogEntry
from deltaberg.iceberg.metadata.snapshot_ref import MAIN_BRANCH, RefType, SnapshotRef
from deltaberg.iceberg.metadata.statistics_file import PartitionStatisticsFile, StatisticsFile
from deltaberg.iceberg.partition.partition_spec import PartitionSpec
from deltaberg.iceberg.partition.sort_order import UNSORTED, SortOrder
from deltaberg.iceberg.schema.json_object import JsonObject, signed_snapshot_id
from deltaberg.iceberg.schema.name_mapping import NAME_MAPPING_PROPERTY, NameMapping
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.timestamps import moment_text

MAX_FORMAT_VERSION = 4
_LOG_KEYS = frozenset({"metadata-file", "timestamp-ms"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLogEntry:
    """A former metadata file of the table and when it was the newest."""

    metadata_file: str
    timestamp_ms: int
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def to_json(self) -> dict[str, object]:
        """The log entry object of Appendix C."""
        return {"metadata-file": self.metadata_file, "timestamp-ms": self.timestamp_ms, **self.extra}

    @classmethod
    def from_json(cls, value: object, path: str) -> MetadataLogEntry:
        """Parse a log entry. Raises CorruptMetadata."""
        node = JsonObject(value, path)
        return cls(
            metadata_file=node.text("metadata-file"),
            timestamp_ms=node.long("timestamp-ms"),
            extra=node.extra(_LOG_KEYS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata:
    """The whole of a table's metadata, any version, with version 1's defaults filled in.

    ``refs`` always holds ``main`` when there is a current snapshot. Every location is absolute; ``stores_location`` and
    ``relative_locations`` say how version 4 keeps them on disk; ``extra`` holds the fields that no version names. Raises CorruptMetadata when ids repeat or dangle.
    """

    format_version: int
    table_uuid: str | None
    location: str
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: int
    last_partition_id: int
    last_sequence_number: int = 0
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    sort_orders: tuple[SortOrder, ...] = (UNSORTED,)
    default_sort_order_id: int = 0
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict, hash=False)
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[EncryptionKey, ...] = ()
    stores_location: bool = True
    relative_locations: bool = False
    extra: Mapping[str, object] = field(default_factory=dict, hash=False, compare=False, repr=False)
    _schemas_by_id: dict[int, Schema] = field(init=False, hash=False, compare=False, repr=False)
    _specs_by_id: dict[int, PartitionSpec] = field(init=False, hash=False, compare=False, repr=False)
    _snapshots_by_id: dict[int, Snapshot] = field(init=False, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        schemas = {item.schema_id: item for item in self.schemas}
        specs = {item.spec_id: item for item in self.partition_specs}
        snapshots = {item.snapshot_id: item for item in self.snapshots}
        orders = {item.order_id for item in self.sort_orders}
        for key, total, unique in (
            ("schemas", len(self.schemas), len(schemas)),
            ("partition-specs", len(self.partition_specs), len(specs)),
            ("snapshots", len(self.snapshots), len(snapshots)),
            ("sort-orders", len(self.sort_orders), len(orders)),
        ):
            if total != unique:
                raise CorruptMetadata(f"Cannot use table metadata: two {key} have the same id", field=f"$.{key}")
        for key, wanted, known in (
            ("current-schema-id", self.current_schema_id, schemas.keys()),
            ("default-spec-id", self.default_spec_id, specs.keys()),
            ("default-sort-order-id", self.default_sort_order_id, orders | {UNSORTED.order_id}),
        ):
            if wanted not in known:
                raise CorruptMetadata(
                    f"Cannot use table metadata: {key} {wanted} is not among {_listed(known)}", field=f"$.{key}"
                )
        if self.current_snapshot_id is not None and self.current_snapshot_id not in snapshots:
            raise CorruptMetadata(
                f"Cannot use table metadata: current-snapshot-id {self.current_snapshot_id} is not among the snapshots",
                field="$.current-snapshot-id",
            )
        for name, ref in self.refs.items():
            if ref.snapshot_id not in snapshots:
                raise CorruptMetadata(
                    f"Cannot use table metadata: reference {name} names snapshot {ref.snapshot_id}, which is not there",
                    field=f"$.refs.{name}",
                )
        if MAIN_BRANCH not in self.refs and self.current_snapshot_id is not None:
            main = SnapshotRef(snapshot_id=self.current_snapshot_id, type=RefType.BRANCH)
            object.__setattr__(self, "refs", {MAIN_BRANCH: main, **self.refs})
        current = self.refs.get(MAIN_BRANCH)
        if current is not None and current.snapshot_id != self.current_snapshot_id:
            raise CorruptMetadata(
                f"Cannot use table metadata: the main branch is at snapshot {current.snapshot_id} and "
                f"current-snapshot-id is {self.current_snapshot_id}",
                field="$.refs.main",
            )
        object.__setattr__(self, "_schemas_by_id", schemas)
        object.__setattr__(self, "_specs_by_id", specs)
        object.__setattr__(self, "_snapshots_by_id", snapshots)

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self._schemas_by_id[self.current_schema_id]

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self._specs_by_id[self.default_spec_id]

    @property
    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return next((item for item in self.sort_orders if item.order_id == self.default_sort_order_id), UNSORTED)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """The snapshot that readers see; None for a table without one."""
        return None if self.current_snapshot_id is None else self._snapshots_by_id[self.current_snapshot_id]

    @property
    def schemas_newest_first(self) -> tuple[Schema, ...]:
        """The current schema, then the others from the highest id down: the order to look source columns up in."""
        others = sorted(
            (item for item in self.schemas if item.schema_id != self.current_schema_id),
            key=lambda item: -item.schema_id,
        )
        return (self.schema, *others)

    @property
    def name_mapping(self) -> NameMapping | None:
        """The mapping for files without field ids. Raises CorruptMetadata when the property is malformed."""
        text = self.properties.get(NAME_MAPPING_PROPERTY)
        return None if text is None else NameMapping.from_text(text)

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """Raises CorruptMetadata when the table has no such partition spec."""
        found = self._specs_by_id.get(spec_id)
        if found is None:
            raise CorruptMetadata(f"Cannot find partition spec {spec_id}: the table has {_listed(self._specs_by_id)}")
        return found

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot:
        """The snapshot with an id, signed or unsigned. Raises InvalidIcebergRequest when the table has no such
        snapshot.
        """
        found = self._snapshots_by_id.get(signed_snapshot_id(snapshot_id))
        if found is None:
            raise InvalidIcebergRequest(
                f"Cannot find snapshot {snapshot_id}: the table has {len(self.snapshots)} snapshots, none with this id"
            )
        return found

    def has_snapshot(self, snapshot_id: int) -> bool:
        """True when a snapshot is still in the metadata."""
        return snapshot_id in self._snapshots_by_id

    def ref(self, name: str) -> SnapshotRef:
        """A branch or tag. Raises InvalidIcebergRequest when there is none of this name."""
        found = self.refs.get(name)
        if found is None:
            known = ", ".join(sorted(self.refs)) or "none"
            raise InvalidIcebergRequest(f"Cannot find branch or tag {name}: the table has {known}")
        return found

    def snapshot_as_of(self, timestamp_ms: int) -> Snapshot:
        """The snapshot that was current at a time, by the snapshot log (Appendix F, "Point in Time Reads").

        Raises InvalidIcebergRequest when the log does not reach back so far or names an expired snapshot.
        """
        found: SnapshotLogEntry | None = None
        for entry in self.snapshot_log:
            if entry.timestamp_ms <= timestamp_ms:
                found = entry
        if found is None:
            raise InvalidIcebergRequest(
                f"Cannot find a snapshot as of {moment_text(timestamp_ms)}: the snapshot log has no entry at or before it"
            )
        if found.snapshot_id not in self._snapshots_by_id:
            raise InvalidIcebergRequest(
                f"Cannot read the table as of {moment_text(timestamp_ms)}: snapshot {found.snapshot_id} has expired"
            )
        return self._snapshots_by_id[found.snapshot_id]

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """A snapshot and its ancestors, newest first, as far as they are in the metadata.

        Raises CorruptMetadata when the parents form a circle.
        """
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id in self._snapshots_by_id:
            if snapshot_id in seen:
                raise CorruptMetadata(f"Cannot follow the parents of snapshot {snapshot_id}: they form a circle")
            seen.add(snapshot_id)
            found = self._snapshots_by_id[snapshot_id]
            yield found
            snapshot_id = found.parent_snapshot_id

    def schema_for(self, snapshot: Snapshot | None) -> Schema:
        """The schema that was current when a snapshot was made; the current one where that is not known."""
        if snapshot is None or snapshot.schema_id is None:
            return self.schema
        return self._schemas_by_id.get(snapshot.schema_id, self.schema)


def _listed(ids: object) -> str:
    known = sorted(ids)  # type: ignore[call-overload]
    return ", ".join(str(item) for item in known[:20]) or "nothing"


def map_locations(metadata: TableMetadata, change: Callable[[str], str]) -> TableMetadata:
    """The metadata with every location but the table's own changed."""
    return replace(
        metadata,
        snapshots=tuple(
            replace(
                item,
                manifest_list=None if item.manifest_list is None else change(item.manifest_list),
                manifests=None if item.manifests is None else tuple(change(path) for path in item.manifests),
            )
            for item in metadata.snapshots
        ),
        metadata_log=tuple(replace(item, metadata_file=change(item.metadata_file)) for item in metadata.metadata_log),
        statistics=tuple(replace(item, statistics_path=change(item.statistics_path)) for item in metadata.statistics),
        partition_statistics=tuple(
            replace(item, statistics_path=change(item.statistics_path)) for item in metadata.partition_statistics
        ),
    )
