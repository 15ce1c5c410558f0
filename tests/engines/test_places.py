"""Where a target stands by default: Spark reads both tables there."""

from __future__ import annotations

import os
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


def test_a_delta_target_elsewhere_is_written_under_a_url_of_another_scheme(
    spark: Any, run: Any, query: Any, warehouse: Path, tmp_path: Path, difference: Any
) -> None:
    """``../`` from a URL with a scheme and a host, as of a bucket; and the same log under another name for the place."""
    run(
        "CREATE TABLE ice.place.source (id INT, v STRING) USING iceberg",
        "INSERT INTO ice.place.source SELECT CAST(id AS INT), concat('v', id) FROM range(20)",
    )
    target = tmp_path / "far" / "away" / "t"
    deltaberg.convert(warehouse / "place" / "source", to="delta", target=target)
    shared = Path(os.path.commonpath([warehouse, target]))
    spark._jsc.hadoopConfiguration().set("fs.viewfs.mounttable.bucket.link./top", f"file://{shared}")
    sql = f"delta.`viewfs://bucket/top/{target.relative_to(shared)}`"
    assert query(f"SELECT * FROM {sql}").num_rows == 20
    run(f"ALTER TABLE {sql} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for statement, left in (
        ("DELETE FROM {t} WHERE id % 5 = 1", 16),
        ("UPDATE {t} SET v = 'new' WHERE id = 2", 16),
        ("DELETE FROM {t} WHERE id = 3", 15),
        ("OPTIMIZE {t}", 15),
    ):
        run(statement.format(t=sql))
        mine = deltaberg.scan(target).read_all()
        assert mine.num_rows == left
        assert not difference(mine, query(f"SELECT * FROM {sql}")), statement
    assert query("SELECT * FROM ice.place.source").num_rows == 20
