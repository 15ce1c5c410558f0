"""Files that Spark tasks rewrote are read by Spark with both connectors, in the same session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltaberg.migrate.spark import convert
from deltaberg.translate.options import ConvertOptions

SOURCES = Path(__file__).parent / "sources"


def test_columns_under_former_names_are_read_by_the_delta_connector(
    spark: Any, query: Any, iceberg_table: Any, tmp_path: Path, difference: Any
) -> None:
    source = iceberg_table(SOURCES / "iceberg" / "renamed.sql")
    options = ConvertOptions(former_names="rewrite")
    done = convert(spark, source.folder, to="delta", target=tmp_path / "target", options=options)
    assert done.rewritten_files >= 1
    wanted = query(f"SELECT * FROM {source.sql}")
    assert wanted.num_rows == 2
    assert not difference(query(f"SELECT * FROM delta.`{done.target}`"), wanted)


def test_strictly_rewritten_types_are_read_by_the_iceberg_connector(
    spark: Any, query: Any, delta_table: Any, warehouse: Path, difference: Any
) -> None:
    """INT96 timestamps among every other primitive type."""
    source = delta_table(SOURCES / "delta" / "all_types.sql")
    target = warehouse / "rewritten" / "all_types"
    done = convert(spark, source.folder, to="iceberg", target=target, options=ConvertOptions(strict=True))
    assert done.rewritten_files >= 1
    wanted = query(f"SELECT * FROM {source.sql}")
    assert not difference(query("SELECT * FROM ice.rewritten.all_types"), wanted, signed_zero=True)
