"""Spark reads what deltaberg wrote from tables that Spark made: the rows, the schema, the nullability."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import deltaberg

# What a type of the source is in the target, as Spark names it.
WIDENED = {"tinyint": "int", "smallint": "int"}


def shape(spark: Any, sql: str) -> list[tuple[str, str, bool]]:
    """Name, type and nullability of every column, as Spark sees them."""
    return [(f.name, f.dataType.simpleString(), f.nullable) for f in spark.table(sql).schema.fields]


def test_an_iceberg_target_equals_its_delta_source(
    delta_script: Path, delta_table: Any, spark: Any, query: Any, warehouse: Path, difference: Any
) -> None:
    source = delta_table(delta_script)
    target = warehouse / "read" / source.name
    if source.refused:
        with pytest.raises(deltaberg.Unsupported, match=source.refused):
            deltaberg.convert(source.folder, to="iceberg", target=target)
        assert not target.exists()
        return
    result = deltaberg.convert(source.folder, to="iceberg", target=target)
    wanted = query(f"SELECT * FROM {source.sql}")
    assert result.rows == wanted.num_rows
    got = query(f"SELECT * FROM ice.read.{source.name}")
    assert not difference(got, wanted.cast(got.schema), signed_zero=True)
    expected = [(name, WIDENED.get(kind, kind), nullable) for name, kind, nullable in shape(spark, source.sql)]
    assert shape(spark, f"ice.read.{source.name}") == expected


def test_a_delta_target_equals_its_iceberg_source(
    iceberg_script: Path, iceberg_table: Any, spark: Any, query: Any, tmp_path_factory: Any, difference: Any
) -> None:
    source = iceberg_table(iceberg_script)
    target = tmp_path_factory.mktemp("read") / source.name
    if source.refused:
        with pytest.raises(deltaberg.Unsupported, match=source.refused):
            deltaberg.convert(source.folder, to="delta", target=target)
        assert not target.exists()
        return
    result = deltaberg.convert(source.folder, to="delta", target=target)
    wanted = query(f"SELECT * FROM {source.sql}")
    assert result.rows == wanted.num_rows
    got = query(f"SELECT * FROM delta.`{target}`")
    assert not difference(got, wanted, signed_zero=True)
    assert shape(spark, f"delta.`{target}`") == shape(spark, source.sql)


def test_the_default_places_are_readable_too(
    delta_table: Any, iceberg_table: Any, spark: Any, query: Any, warehouse: Path, difference: Any
) -> None:
    """A Delta table gets its Iceberg metadata in ``_iceberg``, an Iceberg table its ``_delta_log`` beside ``metadata``."""
    delta_folder = warehouse / "default" / "orders"
    spark.sql(f"CREATE TABLE delta.`{delta_folder}` (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{delta_folder}` VALUES (1, 'a'), (2, NULL)")
    deltaberg.convert(delta_folder, to="iceberg")
    wanted = query(f"SELECT * FROM delta.`{delta_folder}`")
    assert not difference(query("SELECT * FROM ice.default.orders._iceberg"), wanted)

    spark.sql("CREATE TABLE ice.default.items (id INT, v STRING) USING iceberg")
    spark.sql("INSERT INTO ice.default.items VALUES (1, 'a'), (2, NULL)")
    deltaberg.convert(warehouse / "default" / "items", to="delta")
    wanted = query("SELECT * FROM ice.default.items")
    assert not difference(query(f"SELECT * FROM delta.`{warehouse / 'default' / 'items'}`"), wanted)
