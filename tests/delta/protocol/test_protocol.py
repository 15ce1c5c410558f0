"""Versions and features decide what is read; what deltaberg does not know is refused by its name."""

from __future__ import annotations

import pytest

from deltaberg.delta.errors import CorruptLog, UnsupportedDeltaFeature
from deltaberg.delta.protocol.protocol import Protocol
from deltaberg.delta.protocol.table_features import FEATURE_BY_NAME, FEATURES, FeatureKind, legacy_features


def parse(reader: object = 3, writer: object = 7, **features: object) -> Protocol:
    return Protocol.from_json({"minReaderVersion": reader, "minWriterVersion": writer, **features})


def with_reader_feature(name: str) -> Protocol:
    return parse(readerFeatures=[name], writerFeatures=[name])


LEGACY = {
    (1, 1): [],
    (1, 2): ["appendOnly", "invariants"],
    (1, 3): ["appendOnly", "invariants", "checkConstraints"],
    (1, 4): ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"],
    (2, 5): ["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"],
    (2, 6): [
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "identityColumns",
    ],
}


@pytest.mark.parametrize(("versions", "names"), LEGACY.items())
def test_old_versions_imply_features(versions: tuple[int, int], names: list[str]) -> None:
    assert [feature.name for feature in legacy_features(*versions)] == names
    assert list(parse(*versions).features) == names


def test_writer_version_5_without_reader_version_2_has_no_column_mapping() -> None:
    assert not parse(1, 5).supports("columnMapping")


def test_reader_version_2_supports_column_mapping_beside_writer_features() -> None:
    assert parse(2, 7, writerFeatures=["columnMapping", "identityColumns"]).supports("columnMapping")


@pytest.mark.parametrize("name", [feature.name for feature in FEATURES if feature.alias_of and not feature.refusal])
def test_a_preview_name_supports_its_feature(name: str) -> None:
    feature = FEATURE_BY_NAME[name]
    protocol = (
        with_reader_feature(name) if feature.kind is FeatureKind.READER_WRITER else parse(1, 7, writerFeatures=[name])
    )
    assert protocol.supports(str(feature.alias_of))
    protocol.require_readable()


@pytest.mark.parametrize(
    "feature", [each for each in FEATURES if each.kind is FeatureKind.READER_WRITER], ids=lambda each: each.name
)
def test_every_reader_feature_is_handled_or_refused_by_name(feature: object) -> None:
    name = feature.name  # type: ignore[attr-defined]
    if FEATURE_BY_NAME[name].refusal is None:
        with_reader_feature(name).require_readable()
        return
    with pytest.raises(UnsupportedDeltaFeature, match=f"Cannot read a table with the feature {name}: ") as caught:
        with_reader_feature(name).require_readable()
    assert caught.value.feature == name


def test_rows_of_the_table_of_features_hang_together() -> None:
    assert len(FEATURE_BY_NAME) == len(FEATURES)
    for feature in FEATURES:
        assert set(feature.requires) <= FEATURE_BY_NAME.keys()
        assert feature.alias_of is None or feature.alias_of in FEATURE_BY_NAME or feature.refusal is not None
        assert feature.summary
        assert feature.handling


def test_an_unknown_reader_feature_is_refused() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match="needs the reader feature 'timeTravelMachine'") as caught:
        with_reader_feature("timeTravelMachine").require_readable()
    assert caught.value.feature == "timeTravelMachine"
    assert caught.value.exit_code == 3


def test_an_unknown_writer_feature_does_not_concern_readers() -> None:
    protocol = parse(1, 7, writerFeatures=["timeTravelMachine"])
    protocol.require_readable()
    assert protocol.unknown_features() == ("timeTravelMachine",)


def test_a_service_that_holds_commits_back_is_refused_though_only_writers_list_it() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match="coordinatedCommits-preview"):
        parse(1, 7, writerFeatures=["coordinatedCommits-preview"]).require_readable()


def test_a_newer_reader_version_is_refused() -> None:
    with pytest.raises(UnsupportedDeltaFeature, match=r"needs reader version 4 \(expected at most 3\)") as caught:
        parse(4, 7, readerFeatures=[], writerFeatures=[]).require_readable()
    assert caught.value.feature == "reader version 4"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"minWriterVersion": 2}, "minReaderVersion is None"),
        ({"minReaderVersion": "1", "minWriterVersion": 2}, "minReaderVersion is '1'"),
        ({"minReaderVersion": True, "minWriterVersion": 2}, "minReaderVersion is True"),
        ({"minReaderVersion": 1, "minWriterVersion": -1}, "minWriterVersion is -1"),
        (
            {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": ["columnMapping"]},
            "readerFeatures is present",
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 2, "writerFeatures": ["appendOnly"]}, "writerFeatures is present"),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": []},
            "version 3 is given without readerFeatures",
        ),
        ({"minReaderVersion": 1, "minWriterVersion": 7}, "version 7 is given without writerFeatures"),
        ({"minReaderVersion": 3, "minWriterVersion": 6, "readerFeatures": []}, "needs writer version 7"),
        (
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": "x", "writerFeatures": []},
            "readerFeatures is 'x'",
        ),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["appendOnly"],
                "writerFeatures": ["appendOnly"],
            },
            "lists appendOnly, a feature of writers only",
        ),
    ],
)
def test_a_protocol_that_contradicts_itself_names_the_field(value: dict[str, object], message: str) -> None:
    with pytest.raises(CorruptLog, match="Cannot read the protocol") as caught:
        Protocol.from_json(value)
    assert message in str(caught.value)


def test_what_is_written_is_read_back() -> None:
    for protocol in (parse(1, 2), parse(2, 7, writerFeatures=["columnMapping"]), with_reader_feature("v2Checkpoint")):
        assert Protocol.from_json(protocol.to_json()) == protocol
