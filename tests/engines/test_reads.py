"""What Spark sees of a target besides its rows: skipped files, every converted version, metadata tables, details, row ids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg

# Four files of 100 rows; all columns but p, the file's number, rise from file to file.
COLUMNS = "p INT, k BIGINT, s STRING, u STRING, t TIMESTAMP, d DECIMAL(20, 3), e DATE, x DOUBLE"
ROWS = """SELECT CAST({p} AS INT) AS p, id AS k, concat(repeat('prefix', 10), lpad(id, 6, '0')) AS s,
concat(lpad(id, 6, '0'), repeat('suffix', 10)) AS u,
TIMESTAMP'2024-01-01 00:00:00.000001' + make_dt_interval(id) AS t, CAST(id * 1.001 AS DECIMAL(20, 3)) AS d,
DATE'2024-01-01' + CAST(id AS INT) AS e, id / 3D AS x FROM range({p} * 100, {p} * 100 + 100, 1, 1)"""
# A condition that holds for one row of the second file, and how many of the four files a reader must skip for it.
CONDITIONS = {
    "k = 150": 3,
    "d = 150.150": 3,
    "e = DATE'2024-05-30'": 3,
    "t = TIMESTAMP'2024-05-30 00:00:00.000001'": 3,
    "p = 1 AND k % 100 = 50": 3,
    "x BETWEEN 49.9 AND 50.1": 3,
    "u = concat('000150', repeat('suffix', 10))": 3,
    # The texts of all files begin alike for longer than a bound is.
    "s = concat(repeat('prefix', 10), '000150')": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A table that Spark wrote and its conversion with all versions; how Spark calls both."""

    source: Path
    target: Path
    source_sql: str
    target_sql: str
    result: Any


@pytest.fixture(scope="session")
def to_iceberg(run: Any, warehouse: Path) -> Pair:
    """A Delta table with four appends, by DataFrames partitioned by p, a delete and a column more."""
    folder = warehouse / "reads" / "delta"
    sql = f"delta.`{folder}`"
    run(
        f"CREATE TABLE {sql} ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')",
        *(f"INSERT INTO {sql} {ROWS.format(p=p)}" for p in range(4)),
        f"DELETE FROM {sql} WHERE k = 7",
        f"ALTER TABLE {sql} ADD COLUMN more STRING COMMENT 'later'",
        f"INSERT INTO {sql} VALUES (9, 9000, {', '.join(['NULL'] * 6)}, 'new')",
    )
    target = warehouse / "reads" / "to_iceberg"
    options = deltaberg.ConvertOptions(history="all")
    result = deltaberg.convert(folder, to="iceberg", target=target, options=options)
    return Pair(source=folder, target=target, source_sql=sql, target_sql="ice.reads.to_iceberg", result=result)


@pytest.fixture(scope="session")
def to_delta(run: Any, warehouse: Path) -> Pair:
    sql = "ice.reads.iceberg"
    run(
        f"CREATE TABLE {sql} ({COLUMNS}) USING iceberg PARTITIONED BY (p) TBLPROPERTIES "
        "('format-version' = '3', 'write.delete.mode' = 'merge-on-read')",
        *(f"INSERT INTO {sql} {ROWS.format(p=p)}" for p in range(4)),
        f"DELETE FROM {sql} WHERE k = 7",
        f"ALTER TABLE {sql} ADD COLUMN more STRING COMMENT 'later'",
        f"INSERT INTO {sql} VALUES (9, 9000, {', '.join(['NULL'] * 6)}, 'new')",
    )
    source, target = warehouse / "reads" / "iceberg", warehouse / "reads" / "to_delta"
    options = deltaberg.ConvertOptions(history="all")
    result = deltaberg.convert(source, to="delta", target=target, options=options)
    return Pair(source=source, target=target, source_sql=sql, target_sql=f"delta.`{target}`", result=result)


@pytest.fixture(params=["to_iceberg", "to_delta"])
def pair(request: pytest.FixtureRequest) -> Pair:
    found: Pair = request.getfixturevalue(request.param)
    return found


def scan_metrics(frame: Any) -> dict[str, int]:
    """The metrics of the one scan of a frame that has been executed."""
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    metrics = leaf.metrics()
    keys = metrics.keysIterator()
    found = {}
    while keys.hasNext():
        key = keys.next()
        found[key] = int(metrics.apply(key).value())
    return found


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_filter_finds_its_row_and_skips_files_by_our_bounds(pair: Pair, run: Any, condition: str) -> None:
    """The fifth file holds nulls only but for p and k: whatever the condition, it is skipped by its counts."""
    frame = run(f"SELECT k FROM {pair.target_sql} WHERE {condition}")
    assert [row["k"] for row in frame.collect()] == [150], f"{condition} on {pair.target_sql}"
    metrics = scan_metrics(frame)
    read = metrics["resultDataFiles"] if "resultDataFiles" in metrics else metrics["numFiles"]
    assert read <= 5 - 1 - CONDITIONS[condition], f"{condition} on {pair.target_sql}: {metrics}"


def commit_times(pair: Pair, query: Callable[[str], pa.Table]) -> tuple[dict[int, Any], dict[int, Any]]:
    """When each version of the source and of the target was committed, as Spark says."""
    found = []
    for sql in (pair.source_sql, pair.target_sql):
        if sql.startswith("delta."):
            rows = query(f"DESCRIBE HISTORY {sql}").select(["version", "timestamp"])
        else:
            rows = query(f"SELECT snapshot_id AS version, committed_at AS timestamp FROM {sql}.snapshots")
        found.append(dict(zip(rows["version"].to_pylist(), rows["timestamp"].to_pylist(), strict=True)))
    return found[0], found[1]


def test_every_converted_version_reads_as_the_source_did(pair: Pair, query: Callable[[str], pa.Table]) -> None:
    """By number and by time. One query for all: a count and a hash of all columns of each version."""
    assert len(pair.result.commits) >= 6
    source_times, target_times = commit_times(pair, query)
    parts = []
    for number, (theirs, ours) in enumerate(pair.result.commits):
        assert source_times[theirs] == target_times[ours]
        moment = source_times[theirs].strftime("%Y-%m-%d %H:%M:%S.%f")
        parts += [
            (number, "source", f"{pair.source_sql} VERSION AS OF {theirs}"),
            (number, "target", f"{pair.target_sql} VERSION AS OF {ours}"),
            (number, "moment", f"{pair.target_sql} TIMESTAMP AS OF '{moment}'"),
        ]
    sql = " UNION ALL ".join(
        f"SELECT {number} AS number, '{side}' AS side, count(*) AS n, bit_xor(xxhash64(*)) AS h FROM {table}"
        for number, side, table in parts
    )
    found = {(row["number"], row["side"]): (row["n"], row["h"]) for row in query(sql).to_pylist()}
    for number, versions in enumerate(pair.result.commits):
        assert found[number, "target"] == found[number, "source"], f"{pair.target_sql}: versions {versions}"
        assert found[number, "moment"] == found[number, "source"], f"{pair.target_sql}: at the time of {versions}"
    assert len({count for (_, side), (count, _) in found.items() if side == "source"}) >= 5


def test_the_schema_has_the_nullability_and_comments_of_the_source(run: Any, warehouse: Path, tmp_path: Path) -> None:
    columns = (
        "id BIGINT NOT NULL COMMENT 'the key', s STRUCT<a: INT NOT NULL COMMENT 'inside', b: STRING> NOT NULL, "
        "l ARRAY<STRUCT<x: INT COMMENT 'an item'>>, m MAP<STRING, INT> COMMENT 'it\\'s a map'"
    )
    source = tmp_path / "source"
    run(
        f"CREATE TABLE delta.`{source}` ({columns}) USING delta",
        f"CREATE TABLE ice.reads.schema ({columns}) USING iceberg",
    )
    deltaberg.convert(source, to="iceberg", target=warehouse / "reads" / "schema_copy")
    deltaberg.convert(warehouse / "reads" / "schema", to="delta", target=tmp_path / "target")

    def described(sql: str) -> Any:
        return without_ids(run(f"SELECT * FROM {sql}").schema.jsonValue())

    assert described("ice.reads.schema_copy") == described(f"delta.`{source}`")
    assert described(f"delta.`{tmp_path / 'target'}`") == described("ice.reads.schema")
    assert "it's a map" in str(described("ice.reads.schema_copy"))


def without_ids(schema: Any) -> Any:
    """A schema's JSON with comments as the only metadata."""
    match schema:
        case dict():
            return {
                key: {k: v for k, v in value.items() if k == "comment"} if key == "metadata" else without_ids(value)
                for key, value in schema.items()
            }
        case list():
            return [without_ids(each) for each in schema]
    return schema


def test_the_metadata_tables_of_an_iceberg_target_say_what_is_so(to_iceberg: Pair, query: Any) -> None:
    name, commits = to_iceberg.target_sql, to_iceberg.result.commits
    counts = {
        "history": "count(*), sum(CASE WHEN is_current_ancestor THEN 0 ELSE 1 END), 0",
        "snapshots": "count(*), count(DISTINCT snapshot_id), max(CAST(summary['total-records'] AS BIGINT))",
        "refs": "count(*), count(DISTINCT name), 0",
        "files": "count(*), sum(record_count), sum(content)",
        "data_files": "count(*), sum(record_count), sum(CASE WHEN first_row_id IS NULL THEN 1 ELSE 0 END)",
        "delete_files": "count(*), sum(record_count), count(referenced_data_file)",
        "entries": "count(*), sum(data_file.record_count), sum(CASE WHEN status = 2 THEN 1 ELSE 0 END)",
        "manifests": "sum(added_data_files_count + existing_data_files_count), "
        "sum(added_delete_files_count + existing_delete_files_count), sum(deleted_data_files_count)",
        "partitions": "count(*), sum(record_count), sum(position_delete_record_count)",
        "all_data_files": "count(DISTINCT file_path), 0, 0",
    }
    sql = " UNION ALL ".join(
        f"SELECT '{table}' AS t, CAST(x AS BIGINT) AS a, CAST(y AS BIGINT) AS b, CAST(z AS BIGINT) AS c "
        f"FROM (SELECT {columns} FROM {name}.{table}) AS v(x, y, z)"
        for table, columns in counts.items()
    )
    found = {row["t"]: (row["a"], row["b"], row["c"]) for row in query(sql).to_pylist()}
    snapshots = len({snapshot for _, snapshot in commits})
    assert found == {
        "history": (snapshots, 0, 0),
        "snapshots": (snapshots, snapshots, 401),
        "refs": (1, 1, 0),
        "files": (6, 402, 1),
        "data_files": (5, 401, 0),
        "delete_files": (1, 1, 1),
        "entries": (6, 402, 0),
        "manifests": (5, 1, 0),
        "partitions": (5, 401, 1),
        "all_data_files": (5, 0, 0),
    }


def test_delta_describes_a_target_as_it_is(to_delta: Pair, query: Any) -> None:
    (detail,) = query(f"DESCRIBE DETAIL {to_delta.target_sql}").to_pylist()
    assert (detail["format"], detail["numFiles"], detail["partitionColumns"]) == ("delta", 5, ["p"])
    assert {"columnMapping", "deletionVectors", "rowTracking", "domainMetadata"} <= set(detail["tableFeatures"])
    history = query(f"DESCRIBE HISTORY {to_delta.target_sql}").sort_by("version").to_pylist()
    assert [row["version"] for row in history] == list(range(len(history)))
    assert {row["engineInfo"].partition("/")[0] for row in history} == {"deltaberg"}
    operations = [row["operation"] for row in history]
    assert operations.count("WRITE") == 5
    assert operations.count("DELETE") == 1


def test_row_ids_and_versions_are_the_sources(to_iceberg: Pair, to_delta: Pair, query: Any) -> None:
    of_iceberg = "_row_id AS id, _last_updated_sequence_number AS seq"
    of_delta = "_metadata.row_id AS id, _metadata.row_commit_version AS seq"
    for pair, theirs, ours in ((to_iceberg, of_delta, of_iceberg), (to_delta, of_iceberg, of_delta)):
        wanted = {
            row["k"]: (row["id"], row["seq"]) for row in query(f"SELECT k, {theirs} FROM {pair.source_sql}").to_pylist()
        }
        got = {
            row["k"]: (row["id"], row["seq"]) for row in query(f"SELECT k, {ours} FROM {pair.target_sql}").to_pylist()
        }
        assert None not in {value for row in wanted.values() for value in row}
        assert got == wanted, pair.target_sql
