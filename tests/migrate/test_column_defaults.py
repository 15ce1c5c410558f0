"""Column defaults there and back: what writers put into a column, and what readers see in rows older than it."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED
from deltaberg.iceberg.schema import types as ice
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

pytest.importorskip("deltalake")

UTC = dt.timezone.utc
MOMENT = dt.datetime(2024, 2, 29, 12, 0, 0, 1)
FEATURE = "allowColumnDefaults"


@dataclass(frozen=True)
class Case:
    """initial: the default that the column is added with, ``old`` in the rows before it. write: the default since then,
    ``sql`` in Delta."""

    type: ice.Type
    initial: Any
    old: Any
    write: Any
    sql: str


CASES = {
    "flag": Case(ice.BooleanType(), True, True, False, "false"),
    "small": Case(ice.IntegerType(), -7, -7, 8, "8"),
    "big": Case(ice.LongType(), 1 << 62, 1 << 62, -(1 << 63), "-9223372036854775808"),
    "ratio": Case(ice.FloatType(), 1.5, 1.5, -0.25, "-0.25F"),
    "share": Case(ice.DoubleType(), 1e20, 1e20, 0.1, "0.1D"),
    "price": Case(ice.DecimalType(precision=10, scale=2), "12.50", Decimal("12.50"), "-0.10", "-0.10BD"),
    "text": Case(ice.StringType(), "old", "old", "", "''"),
    "words": Case(ice.StringType(), "ü \\ 'x'", "ü \\ 'x'", 'say "ü"', "'say \"ü\"'"),
    "day": Case(ice.DateType(), "1969-12-31", dt.date(1969, 12, 31), "2024-02-29", "DATE'2024-02-29'"),
    "local": Case(
        ice.TimestampType(),
        "2024-02-29T12:00:00.000001",
        MOMENT,
        "2025-01-01T00:00:00.000000",
        "TIMESTAMP_NTZ'2025-01-01 00:00:00.000000'",
    ),
    "instant": Case(
        ice.TimestamptzType(),
        "2024-02-29T12:00:00.000001+00:00",
        MOMENT.replace(tzinfo=UTC),
        "2025-01-01T00:00:00.000000+00:00",
        "TIMESTAMP'2025-01-01 00:00:00.000000Z'",
    ),
    "blob": Case(ice.BinaryType(), "00FF", b"\x00\xff", "0A", "X'0A'"),
}
"""Carried both ways."""


@pytest.fixture
def table(tmp_path: Path, write_iceberg_file: Any) -> str:
    """One row older than all columns of CASES, of ``place.town`` and of ``key``, which has type uuid; one since then."""
    root = str(tmp_path / "iceberg")
    place = ice.StructType(fields=(ice.NestedField(field_id=3, name="x", required=False, type=ice.LongType()),))
    schema = Schema(
        schema_id=0,
        fields=(
            ice.NestedField(field_id=1, name="id", required=True, type=ice.LongType()),
            ice.NestedField(field_id=2, name="place", required=False, type=place),
        ),
    )

    def append(**row: Any) -> None:
        at = Table.open(root, open_storage())
        kinds = pa.schema([pa.field(each.name, ice.arrow_type(each.type)) for each in at.metadata.schema.fields])
        file = write_iceberg_file(root, at.metadata.schema, pa.Table.from_pylist([row], kinds), UNPARTITIONED)
        with at.transaction() as transaction:
            transaction.snapshot("append").add_files([file], 0)
            transaction.commit()

    def evolve(columns: Any) -> None:
        for name, case in CASES.items():
            columns.add_column(name, case.type, default=case.initial)
        columns.add_column("town", ice.StringType(), parent="place", default="x")
        columns.add_column("key", ice.UuidType(), default="f79c3e09-677c-4bbd-a479-3f349cb785e7")
        columns.add_column("plain", ice.LongType())

    def rewrite_defaults(columns: Any) -> None:
        for name, case in CASES.items():
            columns.update_write_default(name, case.write)

    with create_table(open_storage(), root, schema=schema, format_version=3) as transaction:
        transaction.commit()
    append(id=1, place={"x": 1})
    for change in (evolve, rewrite_defaults):
        with Table.open(root, open_storage()).transaction() as transaction:
            transaction.update_schema(change)
            transaction.commit()
    append(id=2, place={"x": 2, "town": "y"}, **dict.fromkeys(CASES), key=None, plain=5)
    return root


def of_iceberg(source: Any) -> dict[str, tuple[Any, Any]]:
    """(initial, write) of each field that has one, at any depth."""
    schema = source.schema
    found = {
        schema.full_name(each.field_id): (each.initial_default, each.write_default) for each in schema.all_fields()
    }
    return {name: each for name, each in found.items() if each != (None, None)}


def of_delta(source: Any) -> dict[str, str]:
    """The SQL texts in the schema as the log has it."""

    def walk(kind: Any, names: tuple[str, ...]) -> Any:
        for each in kind.get("fields", ()) if isinstance(kind, dict) else ():
            path = (*names, each["name"])
            if "CURRENT_DEFAULT" in each["metadata"]:
                yield ".".join(path), each["metadata"]["CURRENT_DEFAULT"]
            yield from walk(each["type"], path)

    return dict(walk(json.loads(source.snapshot.metadata.schema_string), ()))


def codes(done: Any) -> set[tuple[str, str]]:
    return {(item.code, item.what) for item in done.plan.items if item.code.startswith("default-")}


def test_defaults_of_an_iceberg_table_go_there_and_back(
    tmp_path: Path, table: str, opened: Any, delta_rows: Any, iceberg_rows: Any, independent: Any, difference: Any
) -> None:
    source = opened(table)
    assert of_iceberg(source)["small"] == (-7, 8)
    options = ConvertOptions(type_mappings={"uuid": "string"})
    there = convert(source, to="delta", target=str(tmp_path / "delta"), options=options)
    assert there.rewritten_files >= 1
    assert codes(there) == {("default-not-literal", "key")}
    middle = opened(there.target)
    wanted_sql = {name: case.sql for name, case in CASES.items()} | {"place.town": "'x'"}
    assert of_delta(middle) == wanted_sql
    assert FEATURE in middle.snapshot.protocol.writer_features

    old = {"id": 1, "place": {"x": 1, "town": "x"}, **{name: case.old for name, case in CASES.items()}, "plain": None}
    new = {"id": 2, "place": {"x": 2, "town": "y"}, **dict.fromkeys(CASES), "plain": 5}
    keys = {"key": "f79c3e09-677c-4bbd-a479-3f349cb785e7"}, {"key": None}
    for got in (delta_rows(there.target), independent.read("duckdb-delta", there.target)):
        wanted = pa.Table.from_pylist([{**old, **keys[0]}, {**new, **keys[1]}], got.schema)
        assert not difference(got, wanted), difference(got, wanted)
    assert verify(source, middle, rows=True).equal

    back = convert(middle, to="iceberg")
    final = opened(back.target)
    assert codes(back) == set()
    # The rows hold the initial defaults now; a reader needs none any more.
    assert of_iceberg(final) == {name: (None, case.write) for name, case in CASES.items()} | {"place.town": (None, "x")}
    assert final.table.metadata.format_version == 3
    got = iceberg_rows(back.target_metadata)
    wanted = pa.Table.from_pylist([{**old, **keys[0]}, {**new, **keys[1]}], got.schema)
    assert not difference(got, wanted), difference(got, wanted)

    again = convert(final, to="delta", target=str(tmp_path / "again"))
    assert of_delta(opened(again.target)) == wanted_sql
    assert FEATURE in opened(again.target).snapshot.protocol.writer_features


@pytest.mark.parametrize(
    ("kind", "sql", "value", "returned"),
    [
        ("long", "7L", 7, "7"),
        ("integer", " +7 ", 7, "7"),
        ("short", "7", 7, "7"),
        ("string", '"x"', "x", "'x'"),
        ("string", "'%'", "%", "'%'"),
        ("decimal(6,2)", "1.5", "1.50", "1.50BD"),
        ("double", "1e3", 1000.0, "1000.0D"),
        ("date", "date '2024-02-29'", "2024-02-29", "DATE'2024-02-29'"),
        (
            "timestamp",
            "TIMESTAMP '2024-02-29 12:00:00+02:00'",
            "2024-02-29T10:00:00.000000+00:00",
            "TIMESTAMP'2024-02-29 10:00:00.000000Z'",
        ),
        ("binary", "x'0a'", "0A", "X'0A'"),
        ("boolean", "TRUE", True, "true"),
        ("long", "NULL", None, None),
    ],
)
def test_defaults_of_a_delta_table_go_there_and_back(
    tmp_path: Path, write_delta: Any, opened: Any, kind: str, sql: str, value: Any, returned: str | None
) -> None:
    folder = with_default(write_delta(pa.table({"id": [1]}), tmp_path / "delta"), kind, sql)
    assert of_delta(opened(folder)) == {"c": sql}
    there = convert(opened(folder), to="iceberg")
    assert codes(there) == set()
    assert of_iceberg(opened(there.target)) == ({} if value is None else {"c": (None, value)})
    back = convert(opened(there.target), to="delta", target=str(tmp_path / "back"))
    assert of_delta(opened(back.target)) == ({} if returned is None else {"c": returned})
    assert (FEATURE in (opened(back.target).snapshot.protocol.writer_features or ())) is (returned is not None)
    assert verify(opened(folder), opened(back.target), rows=True).equal


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("string", "'it\\'s'"),
        ("string", "concat('a', 'b')"),
        ("timestamp", "current_timestamp()"),
        ("timestamp", "TIMESTAMP '2024-02-29 12:00:00'"),
        ("double", "double('NaN')"),
        ("integer", "3000000000"),
    ],
)
def test_a_default_that_is_not_carried_is_said(
    tmp_path: Path, write_delta: Any, opened: Any, kind: str, sql: str
) -> None:
    """docs/types.md lists these."""
    folder = with_default(write_delta(pa.table({"id": [1]}), tmp_path / "delta"), kind, sql)
    there = convert(opened(folder), to="iceberg")
    assert codes(there) == {("default-not-literal", "c")}
    assert of_iceberg(opened(there.target)) == {}


def test_text_with_a_quote_or_a_backslash_is_a_default_in_delta_and_said_on_the_way_back(
    tmp_path: Path, opened: Any
) -> None:
    """What a backslash means in SQL is a setting of Spark's session (spark.sql.parser.escapedStringLiterals)."""
    texts = {"quote": ("it's", r"'it\'s'"), "backslash": ("a\\b", r"'a\\b'")}
    fields = [
        ice.NestedField(field_id=place, name=name, required=False, type=ice.StringType(), write_default=text)
        for place, (name, (text, _)) in enumerate(texts.items(), 1)
    ]
    root = str(tmp_path / "iceberg")
    with create_table(
        open_storage(), root, schema=Schema(schema_id=0, fields=tuple(fields)), format_version=3
    ) as transaction:
        transaction.commit()
    there = convert(opened(root), to="delta", target=str(tmp_path / "delta"))
    assert codes(there) == set()
    assert of_delta(opened(there.target)) == {name: sql for name, (_, sql) in texts.items()}
    back = convert(opened(there.target), to="iceberg")
    assert codes(back) == {("default-not-literal", name) for name in texts}
    assert of_iceberg(opened(back.target)) == {}


def with_default(folder: Path, kind: str, sql: str) -> Path:
    """A column ``c`` more, of a Delta type and with a default, as Spark's ALTER TABLE commits it."""
    log = folder / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text(encoding="utf-8").splitlines()]
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    schema = json.loads(metadata["schemaString"])
    schema["fields"].append({"name": "c", "type": kind, "nullable": True, "metadata": {"CURRENT_DEFAULT": sql}})
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"] = {"delta.feature.allowColumnDefaults": "supported"}
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [FEATURE]}}
    actions = [protocol, {"metaData": metadata}]
    (log / f"{1:020}.json").write_text("".join(json.dumps(each) + "\n" for each in actions), encoding="utf-8")
    return folder
