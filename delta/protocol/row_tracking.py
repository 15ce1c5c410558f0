"""Row ids and row commit versions (PROTOCOL "Row Tracking"; ``rowIdHighWaterMark`` as upstream now names it)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.delta.errors import CorruptLog, InvalidDeltaRequest
from deltaberg.delta.log.actions import DomainMetadata, Metadata
from deltaberg.delta.protocol.protocol import Protocol

DOMAIN = "delta.rowTracking"
_HIGH_WATER_MARK = "rowIdHighWaterMark"
_NONE_ASSIGNED = -1
_LARGEST_ID = 2**63 - 1


def is_supported(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether writers must assign row ids: the feature is listed and not suspended."""
    return protocol.supports("rowTracking") and not metadata.properties.row_tracking_suspended


def is_enabled(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether every row of the table has its row id and commit version."""
    return protocol.supports("rowTracking") and metadata.properties.row_tracking


def high_water_mark(domains: Iterable[DomainMetadata]) -> int:
    """The highest row id ever assigned; -1 where none was. Raises CorruptLog for a configuration that says no number."""
    for each in domains:
        if each.domain == DOMAIN and not each.removed:
            try:
                mark = json.loads(each.configuration).get(_HIGH_WATER_MARK)
            except (ValueError, AttributeError, RecursionError) as error:
                raise CorruptLog(f"Cannot read the domain {DOMAIN}: its configuration is no JSON object") from error
            if not isinstance(mark, int) or isinstance(mark, bool) or not -1 <= mark <= _LARGEST_ID:
                raise CorruptLog(f"Cannot read the domain {DOMAIN}: {_HIGH_WATER_MARK} is {mark!r} (expected a row id)")
            return mark
    return _NONE_ASSIGNED


def high_water_mark_action(mark: int) -> DomainMetadata:
    """The action that records the highest row id assigned."""
    return DomainMetadata(domain=DOMAIN, configuration=json.dumps({_HIGH_WATER_MARK: mark}, separators=(",", ":")))


def assign(batches: Iterable[pa.RecordBatch], *, mark: int, version: int) -> Iterator[pa.RecordBatch]:
    """Batches of ADD_SCHEMA with ids above ``mark`` and the commit's version where they have none.

    Ids that are given stay: a file that is committed again keeps those it had. Raises InvalidDeltaRequest for a file
    without a record count, and where ids run out.
    """
    for batch in batches:
        missing = pc.is_null(batch.column("base_row_id")).to_numpy(zero_copy_only=False)
        if missing.any():
            counts = pc.struct_field(batch.column("stats"), "num_records")
            unknown = pc.and_(pc.is_null(counts), pa.array(missing))
            if pc.any(unknown).as_py():
                path = batch.column("path")[pc.index(unknown, True).as_py()].as_py()
                raise InvalidDeltaRequest(
                    "Cannot assign row ids: the file has no numRecords (expected the physical row count)", path=path
                )
            rows = np.where(missing, pc.fill_null(counts, 0).to_numpy(), 0)
            if mark + int(rows.sum(dtype=object)) > _LARGEST_ID:
                raise InvalidDeltaRequest(f"Cannot assign row ids: they would pass {_LARGEST_ID}")
            starts = mark + 1 + np.concatenate(([0], np.cumsum(rows)[:-1]))
            ids = pc.if_else(pa.array(missing), pa.array(starts, pa.int64()), batch.column("base_row_id"))
            batch = _replaced(batch, "base_row_id", ids)
            mark += int(rows.sum())
        versions = batch.column("default_row_commit_version")
        yield _replaced(batch, "default_row_commit_version", pc.fill_null(versions, version))


def highest_id(batch: pa.RecordBatch) -> int:
    """The highest row id that the files of a batch of ADD_SCHEMA use; -1 for none."""
    counts = pc.fill_null(pc.struct_field(batch.column("stats"), "num_records"), 1)
    last = pc.subtract(pc.add_checked(batch.column("base_row_id"), counts), 1)
    highest = pc.max(last).as_py()
    return _NONE_ASSIGNED if highest is None else int(highest)


def rows_without_ids(batch: pa.RecordBatch) -> int:
    """How many row ids ``assign`` would give to a batch of ADD_SCHEMA, of files with a record count."""
    missing = pc.is_null(batch.column("base_row_id"))
    counts = pc.struct_field(batch.column("stats"), "num_records")
    return int(pc.fill_null(counts.filter(missing), 0).to_numpy(zero_copy_only=False).sum(dtype=object))


def _replaced(batch: pa.RecordBatch, column: str, values: pa.Array) -> pa.RecordBatch:
    index = batch.schema.get_field_index(column)
    return batch.set_column(index, batch.schema.field(index), values)
