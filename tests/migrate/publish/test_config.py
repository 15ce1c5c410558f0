"""The configuration of ``publish``: every key is known and of its type, or the message says where it is not."""

from __future__ import annotations

import pytest

from deltaberg.errors import DeltabergError, Unsupported, UsageError
from deltaberg.migrate.publish.config import PublisherConfig
from deltaberg.migrate.publish.config_file import parse_config
from deltaberg.migrate.source import TableFormat
from deltaberg.redaction import redacted
from deltaberg.translate.options import ConvertOptions

FILE = "/conf/tables.yaml"


def parsed(text: str, **environment: str) -> PublisherConfig:
    return parse_config(text.encode(), FILE, environment=environment)


def refusal(text: str, kind: type[DeltabergError] = UsageError, **environment: str) -> str:
    with pytest.raises(kind) as raised:
        parsed(text, **environment)
    return raised.value.message.removeprefix(f"Cannot read {FILE}: ")


def test_every_key_has_its_place_and_defaults_stand_behind_each_table() -> None:
    config = parsed(
        """
interval: 2.5
concurrency: 8
lease: 30
recheck: 600
max_backoff: 60
defaults: {to: iceberg, format_version: 3, storage_options: {aws_region: eu-central-1}}
tables:
  - source: s3://lake/orders
  - name: visits
    source: ../visits
    to: delta
    target: /lake/delta/visits
    ref: main
    squash: true
    interval: 60
    relocate: {/old: /new}
    allow_locations: [s3://other/]
    storage_options: {aws_secret_access_key: "${SECRET}", aws_region: 017}
"""
        "    type_mappings: {uuid: string}\n",
        SECRET="very secret indeed",
    )
    assert (config.concurrency, config.lease_s, config.recheck_s, config.max_backoff_s) == (8, 30.0, 600.0, 60.0)
    orders, visits = config.tables
    assert (orders.name, orders.source, orders.to, orders.interval_s) == (
        "s3://lake/orders",
        "s3://lake/orders",
        TableFormat.ICEBERG,
        2.5,
    )
    assert (orders.target, orders.ref, orders.squash, orders.options) == (
        None,
        None,
        False,
        ConvertOptions(format_version=3),
    )
    assert (visits.name, visits.source, visits.target, visits.to) == (
        "visits",
        "/visits",
        "/lake/delta/visits",
        TableFormat.DELTA,
    )
    assert (visits.ref, visits.squash, visits.interval_s) == ("main", True, 60.0)
    assert (dict(visits.relocate), visits.allow_locations) == ({"/old": "/new"}, ("s3://other/",))
    assert visits.storage_options == {"aws_secret_access_key": "very secret indeed", "aws_region": "017"}
    assert visits.options == ConvertOptions(format_version=3, type_mappings={"uuid": "string"})
    assert "very secret indeed" not in repr(config)
    assert redacted("it said very secret indeed") == "it said ***"


def test_no_option_given_leaves_those_that_the_target_was_created_with() -> None:
    assert parsed("tables: [{source: /a, to: delta}]").tables[0].options is None


TABLE = "tables:\n  - source: /a\n    to: iceberg\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it is empty (expected tables)"),
        ("tables: [", "line 1, column 10: it is not YAML (while parsing a flow node, expected the node content, but found '<stream end>')"),
        ("a: b: c", "line 1, column 5: it is not YAML (mapping values are not allowed here)"),
        ("- a", "line 1: must be keys with values, found a list"),
        ("interval: 3", "line 1: tables is missing"),
        ("tables: []", "line 1: tables is empty: there is nothing to publish"),
        ("tables: {a: b}", "line 1: tables must be a list, found keys with values"),
        ("tables: [a]", "line 1: tables[1] must be keys with values, found 'a'"),
        ("tabels:\n  - source: /a", "line 1: unknown key tabels (did you mean tables?)"),
        (TABLE + "    intervall: 3", "line 4: unknown key tables[1].intervall (did you mean interval?)"),
        (TABLE + "    source: /b", "line 4: tables[1].source is given twice, first on line 2"),
        (TABLE + "    interval: 0", "line 4: tables[1].interval must be a number of seconds above 0, found '0'"),
        (TABLE + "    interval: soon", "line 4: tables[1].interval must be a number of seconds above 0, found 'soon'"),
        (TABLE + "    interval: .nan", "line 4: tables[1].interval must be a number of seconds above 0, found '.nan'"),
        (TABLE + "    squash: 1", "line 4: tables[1].squash must be true or false, found '1'"),
        (TABLE + "    name: [a]", "line 4: tables[1].name must be a text, found a list"),
        (TABLE + "    target:", "line 4: tables[1].target must be a text, found nothing"),
        (TABLE + "    format_version: 4", "line 4: tables[1].format_version must be one of 1, 2, 3, found '4'"),
        (TABLE + "    version: 4", "line 4: tables[1].version cannot be chosen: publish follows the newest version"),
        (TABLE + "    ? [a]\n    : b", "line 4: tables[1] has a key that is not a text"),
        (TABLE + "    name: !!python/name:os.system x", "line 4, column 11: it is not YAML (could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system')"),
        ("tables:\n  - to: delta", "line 2: tables[1] has no source"),
        ("tables:\n  - source: /a", "line 2: tables[1] has no to"),
        ("tables:\n  - source: /a\n    to: hudi", "line 3: tables[1].to must be one of iceberg, delta, found 'hudi'"),
        ("concurrency: 0\n" + TABLE, "line 1: concurrency must be from 1 to 256, found 0"),
        ("lease: 1\n" + TABLE, "line 1: lease must be at least 5 seconds, found '1'"),
        ("defaults: {name: a}\n" + TABLE, "line 1: defaults.name belongs to one table"),
        ("tables: &a\n  - *a", "line 1: tables[1] contains itself"),
        (
            TABLE + "    storage_options: {aws_region: '${REGION}'}",
            "line 4: tables[1].storage_options.aws_region names ${REGION}, which is not set in the environment",
        ),
        (
            TABLE + "    storage_options: {aws_region: '${a b}'}",
            "line 4: tables[1].storage_options.aws_region names ${a b} (expected the name of an environment variable)",
        ),
        (TABLE + "  - {source: /a, to: iceberg, target: /b}", "two tables have the name /a; give each its own"),
        (
            TABLE + "  - {source: /a/, to: iceberg}",
            "the tables /a and /a/ have one target; give each its own",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_line_and_key(text: str, message: str) -> None:
    assert refusal(text) == message


def test_an_option_that_no_store_knows_is_refused_where_it_stands() -> None:
    message = refusal(TABLE + "    storage_options: {aws_regoin: eu}")
    assert message.startswith("line 4: tables[1].storage_options: ")
    assert "aws_regoin" in message


def test_a_credential_in_a_location_is_refused_without_repeating_it() -> None:
    message = refusal("tables: [{source: 's3://me:hush-hush@lake/a', to: delta}]")
    assert message.startswith("line 1: tables[1].source cannot be used: ")
    with pytest.raises(UsageError) as raised:
        parsed("tables: [{source: 's3://me:hush-hush@lake/a', to: delta}]")
    assert "hush-hush" not in str(raised.value)


def test_a_key_without_meaning_is_named_and_the_rest_holds() -> None:
    config = parsed(TABLE + "    verify: rows")
    assert config.notes == (
        f"{FILE}: line 4: tables[1].verify has no meaning here: nothing is compared; use deltaberg verify",
    )
    assert len(config.tables) == 1


XTABLE = """
sourceFormat: {source}
targetFormats:
  - {target}
datasets:
  -
    tableBasePath: s3://bucket/orders
    tableDataPath: s3://bucket/orders/data
    tableName: orders
    namespace: my.db
  -
    tableBasePath: /lake/visits
    tableName: visits
    partitionSpec: day:VALUE
"""


def test_a_dataset_file_of_xtable_is_read_as_it_is() -> None:
    config = parsed(XTABLE.format(source="ICEBERG", target="DELTA"))
    orders, visits = config.tables
    assert (orders.name, orders.source, orders.to, orders.target) == (
        "my.db.orders",
        "s3://bucket/orders",
        TableFormat.DELTA,
        None,
    )
    assert orders.allow_locations == ("s3://bucket/orders/data",)
    assert (visits.name, visits.source, visits.allow_locations) == ("visits", "/lake/visits", ())
    assert config.notes == (
        f"{FILE}: line 14: datasets[2].partitionSpec has no meaning here: Iceberg and Delta tables say themselves how they "
        "are partitioned",
    )


@pytest.mark.parametrize(
    ("source", "target", "where", "name"),
    [("HUDI", "DELTA", "line 2: sourceFormat", "HUDI"), ("DELTA", "PAIMON", "line 4: targetFormats[1]", "PAIMON")],
)
def test_formats_that_only_xtable_knows_are_refused_by_name(source: str, target: str, where: str, name: str) -> None:
    text = XTABLE.format(source=source, target=target)
    assert refusal(text, Unsupported) == (
        f"{where} is {name}, a format that deltaberg does not know (expected ICEBERG or DELTA)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (XTABLE.format(source="DELTA", target="DELTA"), "line 3: targetFormats names DELTA, which is the format of the source"),
        (XTABLE.format(source="AVRO", target="DELTA"), "line 2: sourceFormat must be ICEBERG or DELTA, found 'AVRO'"),
        ("sourceFormat: DELTA\ntargetFormats: [ICEBERG]", "line 1: datasets is missing"),
        ("sourceFormat: DELTA\ntargetFormat: [ICEBERG]", "line 2: unknown key targetFormat (did you mean targetFormats?)"),
        (
            "sourceFormat: DELTA\ntargetFormats: [ICEBERG]\ndatasets: [{tableBasePaht: /a}]",
            "line 3: unknown key datasets[1].tableBasePaht (did you mean tableBasePath?)",
        ),
        ("sourceFormat: DELTA\ntargetFormats: [ICEBERG]\ndatasets: [{tableName: a}]", "line 3: datasets[1] has no tableBasePath"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_dataset_file_is_named(text: str, message: str) -> None:
    assert refusal(text) == message
