"""The versions of a Delta table that can be replayed into snapshots, and the schemas that they have.

A schema period is a run of versions with one schema. A replay reaches back as far as every file is still there and
every change of the schema is one that Iceberg knows: ids stay with their columns, types are promoted only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.commit.in_commit_timestamp import first_in_commit_timestamp
from deltaberg.delta.deletion_vector.deletion_vector import descriptors
from deltaberg.delta.history import CommitActions
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.log.add_path import location_array, path_keys
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.schema.column_mapping import ColumnMapping
from deltaberg.delta.schema.types import ArrayType, DateType, DeltaType, MapType, StructField, StructType
from deltaberg.migrate.files.file_layout import in_parallel
from deltaberg.migrate.source import DeltaSource
from deltaberg.translate.field_ids import Path, assigned_ids, declared_ids, mapped_schema, physical_name
from deltaberg.translate.type_changes import iceberg_can_promote
from deltaberg.translate.types import delta_to_iceberg_type

_NEWEST_FORMAT = 3
_USUAL_FORMAT = 2

Shape = tuple[StructType, tuple[str, ...]]
"""A schema, and the partition columns by physical name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPeriod:
    """Versions from ``first`` on, until the next schema period. source: the table at that version. schema: its mapping
    metadata only where it counts.
    """

    first: int
    source: DeltaSource
    schema: StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """The versions to replay.

    ids: of every path of any period. merged: a schema with the columns of all periods. times: milliseconds by version.
    truncated_because: why older versions are left out; None where there are none. format_version: the lowest that
    allows every change of a type from period to period.
    """

    periods: tuple[SchemaPeriod, ...]
    last: int
    ids: Mapping[Path, int]
    merged: StructType
    times: Mapping[int, int]
    truncated_because: str | None
    format_version: int

    @property
    def first(self) -> int:
        return self.periods[0].first

    @property
    def versions(self) -> range:
        return range(self.first, self.last + 1)

    def period_of(self, version: int) -> SchemaPeriod:
        """The schema period of a version."""
        return next(period for period in reversed(self.periods) if period.first <= version)

    def commits(self) -> Iterator[CommitActions]:
        """The commits after the first version, oldest first."""
        if self.first < self.last:
            yield from self.periods[0].source.table.commits(self.first + 1, self.last)


def version_range(source: DeltaSource, *, format_version: int | None) -> VersionRange:
    """Read the log from its oldest version that can be rebuilt to the source's. Raises the errors of reading it.

    format_version: of the target where one was asked for; it bounds the changes of types that can be followed.
    """
    allowed = _NEWEST_FORMAT if format_version is None else format_version
    last = source.snapshot.version
    start, truncated_because = None, None
    schemas: dict[int, Shape] = {}
    protocol = metadata = None
    for actions in source.table.commits(end=last):
        if start is None:
            start = actions.version
            first = source.table.snapshot(version=start)
            protocol, metadata = first.protocol, first.metadata
            schemas[start] = _shape(first.column_mapping, metadata.partition_columns)
            truncated_because = f"the log no longer holds versions before {start}" if start else None
            continue
        protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
        assert protocol is not None
        assert metadata is not None
        if actions.metadata is not None or actions.protocol is not None:
            shape = _shape(ColumnMapping.of(protocol, metadata), metadata.partition_columns)
            before = schemas[max(schemas)]
            if shape != before:
                reason = _break(before, shape, allowed)
                if reason is not None:
                    schemas, start, truncated_because = {}, actions.version, f"version {actions.version} {reason}"
                schemas[actions.version] = shape
        gone = _missing_file(source, actions)
        if gone is not None:
            newest = schemas[max(schemas)]
            start, truncated_because = (
                actions.version,
                f"{gone}, of a version before {actions.version}, is no longer there",
            )
            schemas = {version: each for version, each in schemas.items() if version >= start} or {start: newest}
    if start is None:  # only a checkpoint is left of the newest version
        start, truncated_because = last, f"the log no longer holds the commits up to version {last}"
        schemas[last] = _shape(source.snapshot.column_mapping, source.snapshot.metadata.partition_columns)
    present = _shape(source.snapshot.column_mapping, source.snapshot.metadata.partition_columns)
    if schemas[max(schemas)] != present:
        schemas, truncated_because = {last: present}, "the commits and a checkpoint disagree about the schema"
    periods = tuple(
        SchemaPeriod(first=version, source=_at(source, version), schema=schema)
        for version, (schema, _) in sorted(schemas.items())
    )
    times = {commit.version: commit.timestamp_ms for commit in source.table.history()}
    times.setdefault(last, source.snapshot.timestamp_ms)
    return VersionRange(
        periods=periods,
        last=last,
        ids=_ids(source, periods),
        merged=_merged([period.schema for period in reversed(periods)]),
        times=times,
        truncated_because=truncated_because,
        format_version=_required_version([shape for _, shape in sorted(schemas.items())]),
    )


def eras_since(
    source: DeltaSource, base: DeltaSource, *, format_version: int, known: Mapping[Path, int], last_id: int
) -> VersionRange:
    """The versions after ``base`` up to the source's, for a target that holds ``base`` already.

    known: ids of the base's paths; last_id: the highest that the target has given out. ``truncated_because`` says why
    Iceberg cannot follow a change of the schema, and where; nothing may be written then. Raises VersionNotFound where a
    commit is gone, and the errors of reading the log.
    """
    first = base.snapshot.version
    schemas: dict[int, Shape] = {first: _shape(base.snapshot.column_mapping, base.snapshot.metadata.partition_columns)}
    times = {first: base.snapshot.timestamp_ms}
    protocol, metadata = base.snapshot.protocol, base.snapshot.metadata
    truncated_because = None
    for actions in source.table.commits(first + 1, source.snapshot.version):
        protocol, metadata = actions.protocol or protocol, actions.metadata or metadata
        times[actions.version] = _committed_ms(actions, protocol, metadata)
        if actions.metadata is None and actions.protocol is None:
            continue
        shape = _shape(ColumnMapping.of(protocol, metadata), metadata.partition_columns)
        before = schemas[max(schemas)]
        if shape != before:
            reason = _break(before, shape, format_version)
            truncated_because = truncated_because or (None if reason is None else f"version {actions.version} {reason}")
            schemas[actions.version] = shape
    periods = tuple(
        SchemaPeriod(first=version, source=base if version == first else _at(source, version), schema=schema)
        for version, (schema, _) in sorted(schemas.items())
    )
    return VersionRange(
        periods=periods,
        last=source.snapshot.version,
        ids=_ids_beyond(periods, known, last_id),
        merged=_merged([period.schema for period in reversed(periods)]),
        times=times,
        truncated_because=truncated_because,
        format_version=_required_version([shape for _, shape in sorted(schemas.items())]),
    )


def _committed_ms(actions: CommitActions, protocol: Protocol, metadata: Metadata) -> int:
    first = first_in_commit_timestamp(protocol, metadata)
    stated = None if actions.commit_info is None else actions.commit_info.in_commit_timestamp
    return actions.modified_ms if first is None or actions.version < first or stated is None else stated


def _required_version(shapes: list[Shape]) -> int:
    follows = all(_break(before, after, _USUAL_FORMAT) is None for before, after in pairwise(shapes))
    return _USUAL_FORMAT if follows else _NEWEST_FORMAT


def _at(source: DeltaSource, version: int) -> DeltaSource:
    if version == source.snapshot.version:
        return source
    return replace(source, snapshot=source.table.snapshot(version=version))


def _shape(mapping: ColumnMapping, partition_columns: tuple[str, ...]) -> Shape:
    schema = mapped_schema(mapping)
    return schema, tuple(physical_name(schema.field(name)) for name in partition_columns)


def _break(before: Shape, after: Shape, format_version: int) -> str | None:
    """Why Iceberg cannot follow a change of the schema; None where it can."""
    if before[1] != after[1]:
        return "changes the partition columns, and deltaberg gives one history one partitioning"
    kinds = [{physical_name(each): each.type for each in schema.fields} for schema, _ in (before, after)]
    if any(isinstance(kinds[0][name], DateType) and kinds[0][name] != kinds[1][name] for name in before[1]):
        return "changes the type of a partition column in a way that would change its values"
    reason = _struct_break(before[0], after[0], "", format_version)
    return None if reason is None else f"changes the schema in a way that Iceberg has no name for: {reason}"


def _struct_break(before: StructType, after: StructType, where: str, format_version: int) -> str | None:
    known = {physical_name(each): each for each in before.fields}
    for column in after.fields:
        name = f"{where}.{column.name}" if where else column.name
        former = known.get(physical_name(column))
        if former is None:
            if not column.nullable:
                return f"required column {name} is added"
            continue
        if former.nullable and not column.nullable:
            return f"column {name} becomes required"
        reason = _type_break(former.type, column.type, name, format_version)
        if reason is not None:
            return reason
    return None


def _type_break(before: DeltaType, after: DeltaType, name: str, format_version: int) -> str | None:
    match before, after:
        case StructType(), StructType():
            return _struct_break(before, after, name, format_version)
        case ArrayType(), ArrayType():
            if before.contains_null and not after.contains_null:
                return f"elements of {name} become required"
            return _type_break(before.element_type, after.element_type, f"{name}.element", format_version)
        case MapType(), MapType():
            if before.key_type != after.key_type:
                return f"the keys of {name} change"
            if before.value_contains_null and not after.value_contains_null:
                return f"values of {name} become required"
            return _type_break(before.value_type, after.value_type, f"{name}.value", format_version)
        case _:
            narrow, wide = delta_to_iceberg_type(before), delta_to_iceberg_type(after)
            if narrow is None or wide is None:
                return f"the type of {name} changes" if before != after else None
            fits = iceberg_can_promote(narrow, wide, format_version=format_version)
            return None if fits else f"the type of {name} changes"


def _missing_file(source: DeltaSource, actions: CommitActions) -> str | None:
    """The first file of a former version that a commit removes and that a cleaner has deleted since."""
    if not actions.removes.num_rows:
        return None
    root, storage = source.snapshot.table_root, source.storage
    locations = location_array(actions.removes.column("path"), root)
    again = path_keys(actions.adds.column("path")) if actions.adds.num_rows else pa.array([], pa.string())
    gone_for_good = pc.invert(pc.is_in(path_keys(actions.removes.column("path")), value_set=again))
    wanted = locations.filter(gone_for_good).to_pylist()
    vectors = [each for each in descriptors(actions.removes.column("deletion_vector")) if each is not None]
    wanted += sorted({each.location(root) for each in vectors if each.storage_type != "i"})
    there = in_parallel(storage.exists, wanted)
    return next((location for location, exists in zip(wanted, there, strict=True) if not exists), None)


def _ids(source: DeltaSource, periods: tuple[SchemaPeriod, ...]) -> dict[Path, int]:
    """One id for every path of any schema period: the newest declared ones first, then those of older periods."""
    mapping = source.snapshot.column_mapping
    known = declared_ids(mapping)
    highest = mapping.max_column_id or 0
    for period in periods:
        own = period.source.snapshot.column_mapping
        known = {**declared_ids(own), **known}
        highest = max(highest, own.max_column_id or 0)
    for period in periods:
        known = {**known, **assigned_ids(period.schema, known=known, first_free=highest + 1)}
    return known


def _ids_beyond(periods: tuple[SchemaPeriod, ...], known: Mapping[Path, int], last_id: int) -> dict[Path, int]:
    """The known ids, and one for every path that came later: its declared one, else one that is free."""
    result = dict(known)
    highest = max(
        [last_id, *known.values(), *(period.source.snapshot.column_mapping.max_column_id or 0 for period in periods)]
    )
    for period in periods:
        result = {**declared_ids(period.source.snapshot.column_mapping), **result}
        result |= assigned_ids(period.schema, known=result, first_free=highest + 1)
    return result


def _merged(schemas: list[StructType]) -> StructType:
    """The newest schema with the columns that older ones had beside, at any depth."""
    fields: dict[str, list[StructField]] = {}
    for schema in schemas:
        for each in schema.fields:
            fields.setdefault(physical_name(each), []).append(each)
    merged = []
    for same in fields.values():
        newest = same[0]
        merged.append(replace(newest, type=_merged_type([each.type for each in same])))
    return StructType(fields=tuple(merged))


def _merged_type(kinds: list[DeltaType]) -> DeltaType:
    newest = kinds[0]
    match newest:
        case StructType():
            return _merged([each for each in kinds if isinstance(each, StructType)])
        case ArrayType():
            return replace(
                newest, element_type=_merged_type([each.element_type for each in kinds if isinstance(each, ArrayType)])
            )
        case MapType():
            return replace(
                newest, value_type=_merged_type([each.value_type for each in kinds if isinstance(each, MapType)])
            )
        case _:
            return newest
