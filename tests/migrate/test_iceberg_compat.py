"""--iceberg-compat: the rules are kept, or the plan refuses and says which would be broken."""

from __future__ import annotations

from typing import Any

import pytest

from deltaberg.delta import types as delta
from deltaberg.delta.column_mapping import MappingMode
from deltaberg.delta.iceberg_compat import IcebergCompat
from deltaberg.migrate.iceberg_compat import compat_findings

FLAT = delta.StructField(name="a", type=delta.LongType(), nullable=True, metadata={})
LISTS = delta.StructField(
    name="l", type=delta.ArrayType(element_type=delta.LongType(), contains_null=True), nullable=True, metadata={}
)
VARIANT = delta.StructField(name="v", type=delta.VariantType(), nullable=True, metadata={})
VECTORS = {"delta.enableDeletionVectors": "true"}
ROW_TRACKING = {"delta.enableRowTracking": "true"}


def found(
    version: IcebergCompat, *fields: Any, mode: MappingMode = MappingMode.ID, properties: dict[str, str] | None = None
) -> list[tuple[str, str]]:
    findings = compat_findings(
        version, delta.StructType(fields=fields), mode=mode, partition_columns=[], properties=properties or {}
    )
    return [(finding.code.name, finding.detail) for finding in findings]


@pytest.mark.parametrize("mode", [MappingMode.ID, MappingMode.NAME])
@pytest.mark.parametrize(
    ("version", "fields", "properties"),
    [
        (IcebergCompat.V1, (FLAT,), {}),
        (IcebergCompat.V2, (FLAT, LISTS), {}),
        (IcebergCompat.V3, (FLAT, LISTS, VARIANT), {**ROW_TRACKING, **VECTORS}),
    ],
)
def test_a_table_that_keeps_the_rules_declares_the_version(
    version: IcebergCompat, fields: Any, properties: dict[str, str], mode: MappingMode
) -> None:
    assert found(version, *fields, properties=properties, mode=mode) == [("iceberg-compat-declared", "")]


@pytest.mark.parametrize(
    ("version", "fields", "properties", "reason"),
    [
        (IcebergCompat.V1, (FLAT,), VECTORS, "deletionVectors"),
        (IcebergCompat.V1, (LISTS,), {}, "expected no map, array or void"),
        (IcebergCompat.V2, (FLAT,), VECTORS, "deletion vectors are active"),
        (IcebergCompat.V2, (VARIANT,), {}, "no place in Iceberg"),
        (IcebergCompat.V3, (FLAT,), {}, "row tracking is not enabled"),
    ],
)
def test_a_rule_that_would_be_broken_refuses(
    version: IcebergCompat, fields: Any, properties: dict[str, str], reason: str
) -> None:
    ((code, detail),) = found(version, *fields, properties=properties)
    assert code == "iceberg-compat-impossible"
    assert reason in detail


def test_column_mapping_is_needed() -> None:
    assert (
        "iceberg-compat-impossible",
        "column mapping is off (expected delta.columnMapping.mode name or id)",
    ) in found(IcebergCompat.V1, FLAT, mode=MappingMode.NONE)
