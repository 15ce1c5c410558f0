"""Changes of metadata: what files and row ids that exist rule out."""

from __future__ import annotations

import dataclasses

import pytest

from deltaberg.delta.commit.metadata_change import check_metadata_change
from deltaberg.delta.create_table import new_metadata
from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.delta.schema.types import LongType, StructField, StructType

ROW_IDS = {
    "delta.rowTracking.materializedRowIdColumnName": "_id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_version",
}


def metadata(
    mode: MappingMode = MappingMode.NONE, configuration: dict[str, str] | None = None, physical: str | None = None
) -> Metadata:
    named = {} if physical is None else {"delta.columnMapping.physicalName": physical}
    return new_metadata(
        StructType(fields=(StructField(name="a", type=LongType(), metadata=named),)),
        table_id="t",
        created_time_ms=1,
        column_mapping=mode,
        configuration=configuration or {},
    )


def bare(configuration: dict[str, str]) -> Metadata:
    """Metadata with just these properties, as a caller may hand it in."""
    return dataclasses.replace(metadata(), configuration=configuration)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (metadata(), metadata()),
        (metadata(), metadata(MappingMode.NAME)),
        (metadata(MappingMode.ID), metadata(MappingMode.ID, {"delta.columnMapping.maxColumnId": "7"})),
        (metadata(), bare({"delta.enableRowTracking": "true", **ROW_IDS})),
        (bare({"delta.enableIcebergCompatV2": "true"}), metadata()),
    ],
)
def test_allowed(before: Metadata, after: Metadata) -> None:
    check_metadata_change(before, after)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (metadata(), dataclasses.replace(metadata(), id="u"), "Cannot change the table's id from t to u"),
        (metadata(), metadata(MappingMode.ID), "mode from none to id"),
        (metadata(MappingMode.NAME), metadata(MappingMode.ID), "mode from name to id"),
        (metadata(MappingMode.NAME), metadata(), "mode from name to none"),
        (
            metadata(),
            metadata(MappingMode.NAME, physical="col-1"),
            r"the physical name of 'a' is 'col-1' \(expected 'a'",
        ),
        (
            metadata(MappingMode.NAME, {"delta.columnMapping.maxColumnId": "7"}),
            metadata(MappingMode.NAME),
            "Cannot lower delta.columnMapping.maxColumnId from 7 to 1",
        ),
        (metadata(), bare({"delta.enableRowTracking": "true"}), "the names of its materialized columns"),
        (
            metadata(),
            bare({"delta.enableRowTracking": "true", "delta.rowTrackingSuspended": "true", **ROW_IDS}),
            "while delta.rowTrackingSuspended is true",
        ),
        (bare({"delta.enableIcebergCompatV3": "true"}), metadata(), "Cannot disable icebergCompatV3"),
    ],
)
def test_refused(before: Metadata, after: Metadata, message: str) -> None:
    with pytest.raises(InvalidDeltaRequest, match=message):
        check_metadata_change(before, after)
