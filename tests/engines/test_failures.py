"""A failing engine names its version, its query and the file, so that a red run can be understood without running it again."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import deltaberg


@pytest.fixture(scope="session")
def broken(run: Any, warehouse: Path) -> tuple[Path, Path, Path]:
    """A Delta table, its Iceberg copy's metadata file, and the data file that both have lost."""
    folder, target = warehouse / "broken" / "delta", warehouse / "broken" / "copy"
    run(
        f"CREATE TABLE delta.`{folder}` (id INT) USING delta",
        f"INSERT INTO delta.`{folder}` SELECT CAST(id AS INT) FROM range(0, 2, 1, 1)",
    )
    metadata = deltaberg.convert(folder, to="iceberg", target=target).target_metadata
    (lost,) = folder.glob("*.parquet")
    shutil.move(lost, warehouse / "broken" / "lost")
    return folder, Path(str(metadata)), lost


def test_spark_names_version_query_place_and_file(broken: Any, query: Any, generation: Any, warehouse: Path) -> None:
    folder, _, lost = broken
    for sql in ("SELECT * FROM ice.broken.copy", f"SELECT * FROM delta.`{folder}`"):
        with pytest.raises(AssertionError) as caught:
            query(sql)
        message = str(caught.value)
        assert message.startswith(f"{generation} cannot answer '{sql}' (ice is {warehouse}): ")
        assert f"Spark {generation.pyspark} with iceberg-spark-runtime-" in message
        assert lost.name in message


def test_spark_names_a_statement_that_it_cannot_run(run: Any, generation: Any, warehouse: Path) -> None:
    words = f"{generation} cannot run 'INSERT INTO ice.broken.absent VALUES (1)' (ice is {warehouse}): "
    with pytest.raises(AssertionError, match=re.escape(words)):
        run("INSERT INTO ice.broken.absent VALUES (1)")


@pytest.mark.parametrize(
    ("engine", "package", "asked"),
    [
        ("duckdb-iceberg", "duckdb", "SELECT * FROM iceberg_scan('{}')"),
        ("duckdb-delta", "duckdb", "SELECT * FROM delta_scan('{}')"),
        ("pyiceberg", "pyiceberg", "StaticTable.from_metadata('{}').scan()"),
        ("polars-iceberg", "polars", "scan_iceberg('{}')"),
        ("deltalake", "deltalake", "SELECT * FROM DeltaTable('{}')"),
        ("datafusion-delta", "datafusion", "SELECT * FROM DeltaTable('{}')"),
        ("polars-delta", "polars", "scan_delta('{}')"),
    ],
)
def test_the_others_name_version_query_and_file(
    engine: str, package: str, asked: str, broken: Any, independent: Any
) -> None:
    folder, metadata, lost = broken
    place = metadata if "iceberg" in engine else folder
    said = independent.read(engine, place)
    assert isinstance(said, str)
    assert said.startswith(f"{package} {version(package)} cannot answer {asked.format(place)}: ")
    assert lost.name in said
