"""--iceberg-compat: the rules are kept, or the plan refuses and says which would be broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.protocol.iceberg_compat import IcebergCompat
from deltaberg.delta.schema import types as delta
from deltaberg.delta.schema.column_mapping import MappingMode
from deltaberg.errors import Unsupported
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import IntegerType, ListType, LongType, NestedField, StringType
from deltaberg.migrate.convert import convert
from deltaberg.migrate.to_delta.iceberg_compat import compat_findings
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

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


PIECES = [
    pa.table(
        {"n": pa.array([1, 2, 3]), "k": pa.array([7] * 3, pa.int32()), "s": ["a", None, "b c"], "l": [[1], None, []]}
    ),
    pa.table({"n": pa.array([4]), "k": pa.array([None], pa.int32()), "s": ["d"], "l": [[None, 5]]}),
]


def source_table(root: str, write_iceberg_file: Any, *, format_version: int, lists: bool) -> pa.Table:
    """A table partitioned by ``k``; with a list column where the version to be declared allows one. Its rows."""
    element = NestedField(field_id=5, name="element", required=False, type=LongType())
    fields = [
        NestedField(field_id=1, name="n", required=False, type=LongType()),
        NestedField(field_id=2, name="k", required=False, type=IntegerType()),
        NestedField(field_id=3, name="s", required=False, type=StringType()),
        NestedField(field_id=4, name="l", required=False, type=ListType(element=element)),
    ]
    schema = Schema(schema_id=0, fields=tuple(fields if lists else fields[:3]))
    part = PartitionField(source_ids=(2,), field_id=1000, name="k", transform=parse_transform("identity"))
    spec = PartitionSpec(spec_id=0, fields=(part,))
    pieces = [each.select([field.name for field in schema.fields]) for each in PIECES]
    with create_table(open_storage(), root, schema=schema, spec=spec, format_version=format_version) as transaction:
        transaction.snapshot("append").add_files([write_iceberg_file(root, schema, each, spec) for each in pieces], 0)
        transaction.commit()
    return pa.concat_tables(pieces)


@pytest.mark.parametrize(("version", "format_version"), [("v1", 1), ("v1", 2), ("v2", 2), ("v3", 3)])
def test_a_converted_table_declares_the_version_and_reads_equal(
    tmp_path: Path,
    write_iceberg_file: Any,
    opened: Any,
    delta_rows: Any,
    independent: Any,
    difference: Any,
    version: Any,
    format_version: int,
) -> None:
    root = str(tmp_path / "iceberg")
    wanted = source_table(root, write_iceberg_file, format_version=format_version, lists=version != "v1")
    options = ConvertOptions(iceberg_compat=version)
    done = convert(opened(root), to="delta", target=str(tmp_path / "delta"), options=options)
    snapshot = opened(done.target).snapshot
    assert snapshot.metadata.configuration[f"delta.enableIcebergCompat{version.upper()}"] == "true"
    assert snapshot.protocol.supports(f"icebergCompat{version.upper()}")
    assert snapshot.column_mapping.mode is MappingMode.ID
    adds = pa.Table.from_batches(list(snapshot.add_files()))
    assert sorted(each["num_records"] for each in adds["stats"].to_pylist()) == [1, 3]
    if version != "v1":
        (column,) = (each for each in snapshot.metadata.schema.fields if each.name == "l")
        assert column.metadata["delta.columnMapping.nested.ids"] == {"l.element": 5}
    for rows in (delta_rows(done.target), independent.read("duckdb-delta", Path(done.target))):
        assert not difference(rows, wanted), difference(rows, wanted)
    back = convert(opened(done.target), to="iceberg")
    assert back.rewritten_files == 0
    assert verify(opened(root), opened(back.target), rows=True, bounds=True).equal


@pytest.mark.parametrize(
    ("version", "format_version", "lists", "deleted", "words"),
    [
        ("v1", 2, True, False, "expected no map, array or void"),
        ("v1", 2, False, True, "deletionVectors"),
        ("v2", 2, True, True, "deletion vectors are active"),
        ("v3", 2, True, False, "row tracking is not enabled"),
    ],
)
def test_a_table_that_would_break_a_rule_is_refused(
    tmp_path: Path,
    write_iceberg_file: Any,
    delete_from_iceberg: Any,
    opened: Any,
    version: Any,
    format_version: int,
    lists: bool,
    deleted: bool,
    words: str,
) -> None:
    place = root = str(tmp_path / "iceberg")
    source_table(root, write_iceberg_file, format_version=format_version, lists=lists)
    if deleted:
        place = delete_from_iceberg(opened(root).table.metadata_location, {0: [0]})
    options = ConvertOptions(iceberg_compat=version)
    with pytest.raises(Unsupported, match=f"(?s)iceberg-compat-impossible: .*{words}"):
        convert(opened(place), to="delta", target=str(tmp_path / "delta"), options=options)
    assert not (tmp_path / "delta").exists()


def test_version_3_carries_deletes(
    tmp_path: Path, write_iceberg_file: Any, delete_from_iceberg: Any, opened: Any, delta_rows: Any, difference: Any
) -> None:
    root = str(tmp_path / "iceberg")
    source_table(root, write_iceberg_file, format_version=3, lists=True)
    place = delete_from_iceberg(opened(root).table.metadata_location, {0: [0], 1: [0]})
    options = ConvertOptions(iceberg_compat="v3")
    done = convert(opened(place), to="delta", target=str(tmp_path / "delta"), options=options)
    assert done.rows == 2
    assert delta_rows(done.target).num_rows == 2
    assert opened(done.target).snapshot.protocol.supports("icebergCompatV3")
    assert verify(opened(place), opened(done.target), rows=True, bounds=True).equal
