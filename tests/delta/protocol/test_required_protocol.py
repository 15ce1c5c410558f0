"""Which features a table declares: those that it uses, with those that they require, and no others."""

from __future__ import annotations

import pytest

from deltaberg.delta.create_table import new_metadata
from deltaberg.delta.errors import InvalidDeltaRequest
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.required_protocol import (
    features_in_use,
    new_protocol,
    protocol_of_new_table,
    upgraded_protocol,
)
from deltaberg.delta.schema.column_mapping import PHYSICAL_NAME, MappingMode
from deltaberg.delta.schema.types import (
    ArrayType,
    DeltaType,
    GeometryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNtzType,
    VariantType,
)


def used(
    configuration: dict[str, str] | None = None,
    kind: DeltaType | None = None,
    field_metadata: dict[str, object] | None = None,
    mode: MappingMode = MappingMode.NONE,
    domains: tuple[str, ...] = (),
) -> set[str]:
    schema = StructType(fields=(StructField(name="c", type=kind or LongType(), metadata=field_metadata or {}),))
    made = new_metadata(schema, table_id="t", created_time_ms=1, configuration=configuration or {}, column_mapping=mode)
    return set(features_in_use(made, domains=domains))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (used(), set()),
        (used({"delta.appendOnly": "true"}), {"appendOnly"}),
        (used({"delta.appendOnly": "false"}), set()),
        (used({"delta.enableTypeWidening": "true"}), {"typeWidening"}),
        (used({"delta.enableRowTracking": "true"}), {"rowTracking", "domainMetadata"}),
        (used({"delta.checkpointPolicy": "v2"}), {"v2Checkpoint"}),
        (used({"delta.constraints.c": "c > 0"}), {"checkConstraints"}),
        (used({"delta.enableVariantShredding": "true"}), {"variantShredding", "variantType"}),
        (used(mode=MappingMode.ID), {"columnMapping"}),
        (used(kind=ArrayType(element_type=TimestampNtzType())), {"timestampNtz"}),
        (used(kind=MapType(key_type=StringType(), value_type=VariantType())), {"variantType"}),
        (used(kind=GeometryType()), {"geospatial"}),
        (used(kind=StringType(), field_metadata={"__COLLATIONS": {"c": "ICU.de"}}), {"collations", "domainMetadata"}),
        (used(field_metadata={"CURRENT_DEFAULT": "1"}), {"allowColumnDefaults"}),
        (used(field_metadata={"delta.generationExpression": "1"}), {"generatedColumns"}),
        (used(domains=("mine",)), {"domainMetadata"}),
        (used(domains=("delta.clustering",)), {"clustering", "domainMetadata"}),
    ],
)
def test_features_in_use(found: set[str], expected: set[str]) -> None:
    assert found == expected


@pytest.mark.parametrize(
    ("features", "versions", "readers", "writers"),
    [
        ((), (1, 2), None, None),
        (("appendOnly",), (1, 2), None, None),
        (("checkConstraints",), (1, 7), None, ("checkConstraints",)),
        (("columnMapping", "icebergCompatV2"), (2, 7), None, ("columnMapping", "icebergCompatV2")),
        (("deletionVectors", "appendOnly"), (3, 7), ("deletionVectors",), ("appendOnly", "deletionVectors")),
        (
            ("deletionVectors", "columnMapping"),
            (3, 7),
            ("columnMapping", "deletionVectors"),
            ("columnMapping", "deletionVectors"),
        ),
    ],
)
def test_a_new_protocol_declares_just_these(
    features: tuple[str, ...],
    versions: tuple[int, int],
    readers: tuple[str, ...] | None,
    writers: tuple[str, ...] | None,
) -> None:
    made = new_protocol(features)
    assert (made.min_reader_version, made.min_writer_version) == versions
    assert (made.reader_features, made.writer_features) == (readers, writers)
    assert Protocol.from_json(made.to_json()) == made


@pytest.mark.parametrize("names", [("b", "b"), ("b", "a")])
@pytest.mark.parametrize("mode", list(MappingMode))
def test_readers_are_told_of_column_mapping_by_its_name_where_a_column_has_another_name_in_the_files(
    names: tuple[str, str], mode: MappingMode
) -> None:
    """Also below a struct. Some readers find columns by their present names at reader version 2, and stop at version 3."""
    inner = StructField(name=names[0], type=LongType(), metadata={PHYSICAL_NAME: names[1]})
    schema = StructType(fields=(StructField(name="s", type=StructType(fields=(inner,))),))
    metadata = new_metadata(schema, table_id="t", created_time_ms=1, column_mapping=mode)
    made = protocol_of_new_table(metadata)
    if mode is MappingMode.NONE:
        assert made.min_reader_version == 1
    elif names[0] == names[1]:
        assert (made.min_reader_version, made.reader_features) == (2, None)
    else:
        assert (made.min_reader_version, made.reader_features) == (3, ("columnMapping",))
    assert Protocol.from_json(made.to_json()) == made


def test_an_upgrade_lists_what_the_versions_implied() -> None:
    made = upgraded_protocol(Protocol(min_reader_version=2, min_writer_version=5), ("deletionVectors",))
    assert (made.min_reader_version, made.min_writer_version) == (3, 7)
    assert set(made.reader_features or ()) == {"columnMapping", "deletionVectors"}
    assert set(made.writer_features or ()) == {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "deletionVectors",
    }
    assert Protocol.from_json(made.to_json()) == made


def test_an_upgrade_to_a_writer_feature_leaves_readers_alone() -> None:
    made = upgraded_protocol(Protocol(min_reader_version=1, min_writer_version=2), ("domainMetadata",))
    assert made == Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("appendOnly", "invariants", "domainMetadata")
    )


def test_an_upgrade_to_what_is_there_changes_nothing() -> None:
    before = Protocol(min_reader_version=1, min_writer_version=4)
    assert upgraded_protocol(before, ("changeDataFeed", "appendOnly")) is before


def test_an_upgrade_keeps_unknown_writer_features() -> None:
    before = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("somethingNew",))
    assert upgraded_protocol(before, ("appendOnly",)).writer_features == ("somethingNew", "appendOnly")


def test_a_feature_that_does_not_exist() -> None:
    with pytest.raises(InvalidDeltaRequest, match="Cannot declare the feature 'timeTravel'"):
        new_protocol(("timeTravel",))
