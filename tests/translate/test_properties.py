from __future__ import annotations

import pytest

from deltaberg.translate.properties import (
    delta_to_iceberg_properties,
    iceberg_to_delta_properties,
    is_secret,
)


def test_properties_come_back_from_a_round_trip() -> None:
    there = {"delta.appendOnly": "true", "owner": "me", "team": "data", "write.format.default": "orc"}
    iceberg = delta_to_iceberg_properties(there).properties
    assert iceberg == {
        "delta.appendOnly": "true",
        "delta.user.owner": "me",
        "team": "data",
        "delta.user.write.format.default": "orc",
    }
    back = iceberg_to_delta_properties(iceberg).properties
    assert back == {
        "iceberg.delta.appendOnly": "true",
        "owner": "me",
        "iceberg.team": "data",
        "write.format.default": "orc",
    }
    assert delta_to_iceberg_properties(back).properties["delta.appendOnly"] == "true"


def test_no_property_of_an_iceberg_table_switches_on_a_delta_feature() -> None:
    carried = iceberg_to_delta_properties({"delta.enableDeletionVectors": "true"}).properties
    assert carried == {"iceberg.delta.enableDeletionVectors": "true"}


def test_what_deltaberg_says_of_itself_is_never_carried_on() -> None:
    assert delta_to_iceberg_properties({"deltaberg.source.position": "{}"}).properties == {}
    assert (
        iceberg_to_delta_properties({"deltaberg.options": "{}", "schema.name-mapping.default": "[]"}).properties == {}
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("s3.secret-access-key", "x"),
        ("s3.access-key-id", "x"),
        ("fs.azure.account.key", "x"),
        ("client.password", "x"),
        ("oauth2-token", "x"),
        ("adls.sas-token.account", "x"),
        ("jdbc.url", "jdbc:postgresql://user:hunter2@host/db"),
        ("note", "AKIAIOSFODNN7EXAMPLE"),
    ],
)
def test_secrets_are_left_out_and_named(key: str, value: str) -> None:
    assert is_secret(key, value)
    for carried in (delta_to_iceberg_properties({key: value}), iceberg_to_delta_properties({key: value})):
        assert carried.properties == {}
        assert [(each.code.name, each.what) for each in carried.findings] == [("secret-property-left-out", key)]
        assert value not in str([finding.detail for finding in carried.findings])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.metadata.compression-codec", "gzip"),
        ("delta.columnMapping.maxColumnId", "7"),
        ("delta.deletedFileRetentionDuration", "interval 1 week"),
        ("comment", "see https://example.org/a:b"),
        ("sort-key", "a"),
    ],
)
def test_ordinary_properties_are_no_secrets(key: str, value: str) -> None:
    assert not is_secret(key, value)
