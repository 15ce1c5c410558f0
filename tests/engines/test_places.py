"""Where a target stands by default: Spark reads both tables there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltaberg


def test_the_default_places_are_readable_too(spark: Any, query: Any, warehouse: Path, difference: Any) -> None:
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
