"""Spark reads columns of a Delta target by field id, whatever their names are in the files; docs/names.md says so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import deltaberg
from deltaberg.translate.options import ConvertOptions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "names.md"
PAIRS = "CREATE TABLE {table} (id BIGINT, k INT) USING iceberg"
CASES = {
    "nothing": (PAIRS, "INSERT INTO {table} VALUES (1, 10), (2, 10)"),
    "a column renamed": (
        PAIRS,
        "INSERT INTO {table} VALUES (1, 10), (2, 10)",
        "ALTER TABLE {table} RENAME COLUMN id TO key",
    ),
    "... to another case": (
        PAIRS,
        "INSERT INTO {table} VALUES (1, 10), (2, 10)",
        "ALTER TABLE {table} RENAME COLUMN id TO number",
        "ALTER TABLE {table} RENAME COLUMN number TO ID",
    ),
    "... in a struct": (
        "CREATE TABLE {table} (id BIGINT, place STRUCT<town: STRING>) USING iceberg",
        "INSERT INTO {table} VALUES (1, named_struct('town', 'x')), (2, NULL)",
        "ALTER TABLE {table} RENAME COLUMN place.town TO city",
    ),
    "dropped, added again": (
        PAIRS,
        "INSERT INTO {table} VALUES (1, 10), (2, 10)",
        "ALTER TABLE {table} DROP COLUMN k",
        "ALTER TABLE {table} ADD COLUMN k STRING",
    ),
    "partition column renamed": (
        f"{PAIRS} PARTITIONED BY (k)",
        "INSERT INTO {table} VALUES (1, 10), (2, 10)",
        "ALTER TABLE {table} RENAME COLUMN k TO key",
    ),
}
BY_IDS = {
    "renamed_and_another_of_its_name": (
        PAIRS,
        "INSERT INTO {table} VALUES (1, 10), (2, 10)",
        "ALTER TABLE {table} RENAME COLUMN k TO b",
        "ALTER TABLE {table} ADD COLUMN k STRING",
        "INSERT INTO {table} VALUES (3, 11, 'x')",
    ),
    "dropped_and_added_again": (
        PAIRS,
        "INSERT INTO {table} VALUES (1, 10), (2, 10)",
        "ALTER TABLE {table} DROP COLUMN k",
        "ALTER TABLE {table} ADD COLUMN k STRING",
        "INSERT INTO {table} VALUES (3, 'x')",
    ),
    "swapped": (
        "CREATE TABLE {table} (id BIGINT, k INT, b STRING) USING iceberg",
        "INSERT INTO {table} VALUES (1, 10, 'x')",
        "ALTER TABLE {table} RENAME COLUMN k TO c",
        "ALTER TABLE {table} RENAME COLUMN b TO k",
        "ALTER TABLE {table} RENAME COLUMN c TO b",
        "INSERT INTO {table} VALUES (2, 11, 'y')",
    ),
    "in_a_struct": (
        "CREATE TABLE {table} (id BIGINT, s STRUCT<a: INT, o: INT>) USING iceberg",
        "INSERT INTO {table} VALUES (1, named_struct('a', 10, 'o', 1))",
        "ALTER TABLE {table} RENAME COLUMN s.a TO b",
        "ALTER TABLE {table} ADD COLUMN s.a STRING",
        "INSERT INTO {table} VALUES (2, named_struct('b', 11, 'o', 1, 'a', 'x'))",
    ),
}


def made(run: Any, warehouse: Path, name: str, statements: tuple[str, ...]) -> tuple[str, Path]:
    """What Spark calls the table, and its folder."""
    short = re.sub("[^a-z_]+", "_", name)
    sql = f"ice.names.{short}"
    run(*(statement.format(table=sql) for statement in ("DROP TABLE IF EXISTS {table}", *statements)))
    return sql, warehouse / "names" / short


@pytest.mark.parametrize("name", CASES)
def test_a_target_reads_as_its_source_and_as_the_page_says(
    name: str, run: Any, query: Any, spark: Any, warehouse: Path, tmp_path: Path, difference: Any
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (head,), (line,) = re.findall(r"^\| call .*$", text, re.MULTILINE), re.findall(r"^\| Spark .*$", text, re.MULTILINE)
    cells = [[cell.strip() for cell in row.split("|")[2:-1]] for row in (head, line)]
    said = dict(zip(*cells, strict=True))
    assert said[name] == "equal"
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        sql, folder = made(run, warehouse, name, CASES[name])
        done = deltaberg.convert(folder, to="delta", target=tmp_path / "target")
        assert done.rewritten_files == 0
        assert not difference(query(f"SELECT * FROM delta.`{done.target}`"), query(f"SELECT * FROM {sql}"))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.parametrize("name", BY_IDS)
def test_ids_are_enough_where_a_name_stands_for_different_columns_in_different_files(
    name: str, run: Any, query: Any, warehouse: Path, tmp_path: Path, difference: Any
) -> None:
    """Of different types, at which the vectorized reader stops as soon as a physical name leads to both."""
    sql, folder = made(run, warehouse, name, BY_IDS[name])
    options = ConvertOptions(former_names="trust-ids")
    done = deltaberg.convert(folder, to="delta", target=tmp_path / "target", options=options)
    assert done.rewritten_files == 0
    assert "former-names" in {item.code for item in done.plan.items}
    assert not difference(query(f"SELECT * FROM delta.`{done.target}`"), query(f"SELECT * FROM {sql}"))
