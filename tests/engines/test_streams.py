"""Tables that Structured Streaming fills, in both formats: a source like any other; how far a stream has come stays its own."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

import deltaberg

MERGE = (
    "MERGE INTO {t} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS v FROM range(15, 25)) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
)


@pytest.fixture(scope="session")
def stream(run: Any, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """``stream("delta", where, sql)``: two micro-batches of ten rows into the folder or table, then a MERGE by hand."""
    place = tmp_path_factory.mktemp("stream")
    checkpoints = (place / f"checkpoint-{number}" for number in itertools.count())
    source = place / "source"
    run(f"CREATE TABLE delta.`{source}` (id INT, v STRING) USING delta")
    for first in (0, 10):
        run(
            f"INSERT INTO delta.`{source}` SELECT CAST(id AS INT), concat('v', id) FROM range({first}, {first} + 10, 1, 1)"
        )

    def fill(kind: str, where: str, sql: str) -> None:
        frame = spark.readStream.format("delta").option("maxFilesPerTrigger", "1").load(str(source))
        writer = frame.coalesce(1).writeStream.format(kind).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(next(checkpoints))).outputMode("append")
        query = writer.start(where) if kind == "delta" else writer.toTable(where)
        query.awaitTermination()
        run(MERGE.format(t=sql))

    return fill


def test_a_delta_table_that_a_stream_fills_becomes_an_iceberg_table(
    stream: Any, query: Any, warehouse: Path, difference: Any
) -> None:
    folder = warehouse / "stream" / "delta"
    sql = f"delta.`{folder}`"
    stream("delta", str(folder), sql)
    assert "STREAMING UPDATE" in {entry.operation for entry in deltaberg.history(folder).entries}
    options = deltaberg.ConvertOptions(history="all")
    result = deltaberg.convert(folder, to="iceberg", target=warehouse / "stream" / "copy", options=options)
    wanted = query(f"SELECT * FROM {sql}")
    assert wanted.num_rows == 25
    assert not difference(query("SELECT * FROM ice.stream.copy"), wanted)
    summaries = query("SELECT snapshot_id, operation, summary FROM ice.stream.copy.snapshots").to_pylist()
    properties = {row["key"]: row["value"] for row in query("SHOW TBLPROPERTIES ice.stream.copy").to_pylist()}
    assert list(json.loads(properties["deltaberg.delta.transactions"]).values()) == [1]
    assert "transactions-recorded" in {item.code for item in result.plan.items}
    assert sorted(row["snapshot_id"] for row in summaries) == sorted({ours for _, ours in result.commits})


def test_an_iceberg_table_that_a_stream_fills_becomes_a_delta_table(
    stream: Any, run: Any, query: Any, warehouse: Path, tmp_path: Path, difference: Any
) -> None:
    run("CREATE TABLE ice.stream.iceberg (id INT, v STRING) USING iceberg")
    stream("iceberg", "ice.stream.iceberg", "ice.stream.iceberg")
    options = deltaberg.ConvertOptions(history="all")
    deltaberg.convert(warehouse / "stream" / "iceberg", to="delta", target=tmp_path / "t", options=options)
    wanted = query("SELECT * FROM ice.stream.iceberg")
    assert wanted.num_rows == 25
    assert not difference(query(f"SELECT * FROM delta.`{tmp_path / 't'}`"), wanted)


@pytest.mark.parametrize("to", ["delta", "iceberg"])
def test_a_stream_writes_on_a_target(
    to: str, stream: Any, run: Any, query: Any, warehouse: Path, difference: Any
) -> None:
    """The rows that came from the source and those of the stream; deltaberg knows the stream's versions for what they are."""
    source, target = warehouse / "stream" / f"under_{to}", warehouse / "stream" / f"written_{to}"
    of_source = f"ice.stream.{source.name}" if to == "delta" else f"delta.`{source}`"
    of_target = f"delta.`{target}`" if to == "delta" else f"ice.stream.{target.name}"
    run(
        f"CREATE TABLE {of_source} (id INT, v STRING) USING {'iceberg' if to == 'delta' else 'delta'}",
        f"INSERT INTO {of_source} VALUES (16, 'under the stream'), (-1, 'before it')",
    )
    deltaberg.convert(source, to=to, target=target)
    stream(to, str(target) if to == "delta" else of_target, of_target)
    mine = deltaberg.scan(target).read_all()
    assert mine.num_rows == 27
    assert not difference(mine, query(f"SELECT * FROM {of_target}"))
    operations = [entry.operation for entry in deltaberg.history(target).entries]
    assert operations.count("STREAMING UPDATE" if to == "delta" else "append") >= 2
    assert query(f"SELECT * FROM {of_source}").num_rows == 2


def test_a_stream_reads_a_delta_target_from_its_first_version(
    spark: Any, run: Any, warehouse: Path, tmp_path: Path
) -> None:
    """What readers of the target's versions as a stream get: the rows of the first one, then each version's."""
    run(
        "CREATE TABLE ice.stream.appended (id INT, v STRING) USING iceberg",
        "INSERT INTO ice.stream.appended VALUES (1, 'a')",
        "INSERT INTO ice.stream.appended VALUES (2, 'b')",
    )
    target = tmp_path / "target"
    options = deltaberg.ConvertOptions(history="all")
    deltaberg.convert(warehouse / "stream" / "appended", to="delta", target=target, options=options)
    frame = spark.readStream.format("delta").option("startingVersion", "0").load(str(target))
    writer = frame.writeStream.format("memory").queryName("from_target").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert sorted(tuple(row) for row in run("SELECT * FROM from_target").collect()) == [(1, "a"), (2, "b")]
