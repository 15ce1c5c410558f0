"""IcebergCompat: each rule of V1, V2 and V3 is refused by name when it is broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg.delta.create_table import create_table, new_metadata
from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.log.actions import Metadata
from deltaberg.delta.protocol.iceberg_compat import IcebergCompat, active_version, check_table, with_nested_ids
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import features_in_use, new_protocol, upgraded_protocol
from deltaberg.delta.schema.column_mapping import NESTED_IDS, ColumnMapping, MappingMode
from deltaberg.delta.schema.schema import schema_to_json
from deltaberg.delta.schema.types import (
    ArrayType,
    DateType,
    DecimalType,
    DeltaType,
    IntegerType,
    IntervalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    VariantType,
    VoidType,
)
from deltaberg.storage import open_storage

V1 = {"delta.enableIcebergCompatV1": "true"}
V2 = {"delta.enableIcebergCompatV2": "true"}
V3 = {"delta.enableIcebergCompatV3": "true", "delta.enableRowTracking": "true"}


def metadata(
    configuration: dict[str, str],
    *columns: DeltaType,
    mode: MappingMode = MappingMode.NAME,
    field_metadata: dict[str, object] | None = None,
    partitioned: bool = False,
) -> Metadata:
    fields = [StructField(name="id", type=LongType(), metadata=field_metadata or {})]
    fields += [StructField(name=f"c{number}", type=kind) for number, kind in enumerate(columns)]
    return new_metadata(
        StructType(fields=tuple(fields)),
        table_id="t",
        created_time_ms=1,
        configuration=configuration,
        column_mapping=mode,
        partition_columns=("c0",) if partitioned else (),
    )


def protocol(of: Metadata) -> Protocol:
    return new_protocol(features_in_use(of))


NESTED = (
    ArrayType(element_type=ArrayType(element_type=IntegerType())),
    MapType(key_type=IntegerType(), value_type=ArrayType(element_type=IntegerType())),
    MapType(
        key_type=IntegerType(),
        value_type=StructType(fields=(StructField(name="sub", type=ArrayType(element_type=IntegerType())),)),
    ),
)


@pytest.mark.parametrize("configuration", [V2, V3])
def test_a_new_table_has_ids_for_elements_keys_and_values(configuration: dict[str, str]) -> None:
    made = metadata(configuration, *NESTED)
    check_table(protocol(made), made)
    mapping = ColumnMapping.of(protocol(made), made)
    ids = [mapping.nested_ids(made.schema.field(f"c{number}")) for number in range(3)]
    assert [list(each) for each in ids] == [
        ["element", "element.element"],
        ["key", "value", "value.element"],
        ["key", "value"],
    ]
    numbers = [number for each in ids for number in each.values()]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) <= int(made.configuration["delta.columnMapping.maxColumnId"])
    assert made.schema.field("c0").metadata[NESTED_IDS] == {
        "c0.element": ids[0]["element"],
        "c0.element.element": ids[0]["element.element"],
    }


def test_ids_that_are_there_stay() -> None:
    made = metadata(V2, *NESTED)
    again, next_id = with_nested_ids(made.schema, 500)
    assert (again, next_id) == (made.schema, 500)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (metadata({**V1, **V2}, LongType()), r"delta.enableIcebergCompatV1 is true, too"),
        (metadata(V1, NESTED[0]), "the column 'c0' is a array"),
        (metadata(V1, NESTED[1]), "the column 'c0' is a map"),
        (metadata(V1, VoidType()), "the column 'c0' is a void"),
        (metadata({**V1, "delta.enableDeletionVectors": "true"}), "the protocol supports deletionVectors"),
        (metadata({**V2, "delta.enableDeletionVectors": "true"}), "deletion vectors are active"),
        (metadata(V2, VariantType()), "the column 'c0' is of type variant"),
        (metadata(V2, VoidType()), "the column 'c0' is of type void"),
        (metadata(V3, VoidType()), "the column 'c0' is of type void"),
        (metadata(V3, IntervalType(text="day")), "the column 'c0' is of type interval day"),
        (metadata({"delta.enableIcebergCompatV3": "true"}), "row tracking is not enabled"),
        (metadata(V2, mode=MappingMode.NONE), "column mapping is off"),
        (
            metadata(V2, field_metadata={"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]}),
            "was widened from integer to double, which Iceberg cannot promote",
        ),
        (
            metadata(V3, field_metadata={"delta.typeChanges": [{"fromType": "date", "toType": "timestamp_ntz"}]}),
            "was widened from date to timestamp_ntz",
        ),
        (metadata(V3, field_metadata={"CURRENT_DEFAULT": "rand()"}), r"the default of 'id' is 'rand\(\)'"),
        (
            metadata(V3, field_metadata={"CURRENT_DEFAULT": "'seven'"}),
            r"is \"'seven'\" \(expected a bare literal of the type long, such as",
        ),
    ],
)
def test_broken_rules(made: Metadata, message: str) -> None:
    with pytest.raises(InvalidDeltaRequest, match=message) as caught:
        check_table(protocol(made), made)
    assert str(caught.value.feature).startswith("icebergCompatV")


@pytest.mark.parametrize(
    "made",
    [
        metadata(V1, LongType(), TimestampNtzType(), StringType()),
        metadata(V2, *NESTED, DecimalType(precision=38, scale=3), DateType(), partitioned=False),
        metadata({**V3, "delta.enableDeletionVectors": "true"}, VariantType(), *NESTED),
        metadata(V3, field_metadata={"CURRENT_DEFAULT": "-12"}),
        metadata(V2, field_metadata={"CURRENT_DEFAULT": "rand()"}),
        metadata(V2, field_metadata={"delta.typeChanges": [{"fromType": "long", "toType": "long"}]}),
        metadata(V2, field_metadata={"delta.typeChanges": [{"fromType": "void", "toType": "long"}]}),
        metadata(V2, field_metadata={"delta.typeChanges": [{"fromType": "short", "toType": "long"}]}),
        metadata({}, VoidType(), mode=MappingMode.NONE),
    ],
)
def test_kept_rules(made: Metadata) -> None:
    check_table(protocol(made), made)


def test_type_changes_do_not_count_where_type_widening_is_not_supported() -> None:
    made = metadata(V2, field_metadata={"delta.typeChanges": [{"fromType": "integer", "toType": "double"}]})
    check_table(new_protocol(features_in_use(made) - {"typeWidening"}), made)


def test_a_missing_nested_id_is_named() -> None:
    made = metadata(V2, NESTED[0])
    field = made.schema.field("c0")
    bare = dataclasses.replace(field, metadata={k: v for k, v in field.metadata.items() if k != NESTED_IDS})
    schema = StructType(fields=(made.schema.fields[0], bare))
    broken = dataclasses.replace(made, schema=schema, schema_string=schema_to_json(schema))
    with pytest.raises(InvalidDeltaRequest, match=r"'c0\.element' has no id"):
        check_table(protocol(made), broken)


def test_partition_columns_may_change_their_type_but_not_their_name() -> None:
    before = metadata(V2, IntegerType(), StringType(), partitioned=True)
    wider = metadata(V2, LongType(), StringType(), partitioned=True)
    check_table(protocol(wider), wider, replaced=before)
    other = dataclasses.replace(before, partition_columns=("c1",))
    with pytest.raises(InvalidDeltaRequest, match=r"change from \['c0'\] to \['c1'\]"):
        check_table(protocol(other), other, replaced=before)


def test_a_version_without_its_feature_is_refused() -> None:
    made = metadata(V2)
    bare = new_protocol(("columnMapping",))
    with pytest.raises(InvalidDeltaRequest, match="the protocol does not list icebergCompatV2"):
        active_version(bare, made)
    assert active_version(upgraded_protocol(bare, ("icebergCompatV2",)), made) is IcebergCompat.V2


def test_files_without_a_record_count_are_refused(tmp_path: Path, data_file: Callable[..., pa.RecordBatch]) -> None:
    create = create_table(open_storage(), str(tmp_path / "table"), metadata=metadata(V2))
    create.add_files([data_file(pa.table({"id": [1]}), stats=False)])
    with pytest.raises(InvalidDeltaRequest, match="its stats have no numRecords") as caught:
        create.commit("WRITE")
    assert caught.value.feature == "icebergCompatV2"
    assert str(caught.value.path).startswith("part-")
