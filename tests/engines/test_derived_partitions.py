"""--derive-partition-columns: Spark accepts the generated columns, computes the same values, and appends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltaberg import api
from deltaberg.translate.derived_columns import DERIVATION_RULES
from deltaberg.translate.options import ConvertOptions

TRANSFORMS = {
    "d": ("date", ("years", "months", "days")),
    "n": ("timestamp_ntz", ("years", "months", "days", "hours")),
    "ts": ("timestamp", ("years", "months", "days", "hours")),
    "i": ("int", ("truncate",)),
    "l": ("bigint", ("truncate",)),
    "s": ("string", ("truncate",)),
}
ROWS = """
  (DATE'1969-12-31', TIMESTAMP_NTZ'1969-12-31 23:59:59.999999', TIMESTAMP'1969-12-31 23:59:59.999999Z', -7, -7, '日本語'),
  (DATE'2024-02-29', TIMESTAMP_NTZ'2024-02-29 00:15:00', TIMESTAMP'2024-02-29 00:15:00Z', 12, 9007199254740993, 'abc'),
  (DATE'0001-01-01', TIMESTAMP_NTZ'0001-01-01 00:00:00', TIMESTAMP'0001-01-01 00:00:00Z', -1000000001, -9007199254740993, 'a'),
  (DATE'9999-12-31', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', TIMESTAMP'9999-12-31 23:59:59.999999Z', 0, 0, '🦆🦆🦆'),
  (NULL, NULL, NULL, NULL, NULL, NULL)
"""
COLUMNS = ", ".join(f"{name} {kind}" for name, (kind, _) in TRANSFORMS.items())


@pytest.fixture
def far_zone(spark: Any) -> Iterator[Any]:
    """The session in a zone whose offset is no whole number of hours."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("kind", ["years", "months", "days", "hours", "truncate"])
def test_spark_computes_for_new_rows_what_iceberg_computed_for_old_ones(
    far_zone: Any, warehouse: Path, tmp_path: Path, kind: str
) -> None:
    """The same rows are appended again: every column's row-wise values must repeat, nulls included."""
    names = [name for name, (_, kinds) in TRANSFORMS.items() if kind in kinds]
    fields = [f"truncate(2, {name})" if kind == "truncate" else f"{kind}({name})" for name in names]
    far_zone.sql(f"CREATE TABLE ice.derived.{kind} ({COLUMNS}) USING iceberg PARTITIONED BY ({', '.join(fields)})")
    far_zone.sql(f"INSERT INTO ice.derived.{kind} VALUES {ROWS}")
    target = tmp_path / "target"
    api.convert(
        warehouse / "derived" / kind, to="delta", target=target, options=ConvertOptions(derive_partition_columns=True)
    )
    derived = [f"{name}_{'trunc' if kind == 'truncate' else kind[:-1]}" for name in names]
    assert far_zone.sql(f"DESCRIBE DETAIL delta.`{target}`").first()["partitionColumns"] == derived

    far_zone.sql(
        f"INSERT INTO delta.`{target}` ({', '.join(TRANSFORMS)}) SELECT {', '.join(TRANSFORMS)} FROM ice.derived.{kind}"
    )
    everything = f"SELECT * FROM delta.`{target}`"
    counted = far_zone.sql(f"SELECT count(*) FROM ({everything})").first()[0]
    distinct = far_zone.sql(f"SELECT count(*) FROM (SELECT DISTINCT * FROM ({everything}))").first()[0]
    assert (counted, distinct) == (10, 5), "a new row differs from the old one that it repeats"
    for name in derived:
        assert far_zone.sql(f"SELECT count(*) FROM delta.`{target}` WHERE {name} IS NULL").first()[0] == 2


def test_spark_accepts_every_expression_in_the_definition_of_a_table(spark: Any, tmp_path: Path) -> None:
    """A definition is checked for allowed functions; a table that was written by others is not.

    By Delta's builder, since not every Spark has generated columns in its SQL.
    """
    names = {"DateType": "d", "TimestampType": "n", "TimestamptzType": "ts", "IntegerType": "i", "LongType": "l"}
    tables, session = spark._jvm.io.delta.tables.DeltaTable, spark._jsparkSession
    builder = tables.create(session).location(str(tmp_path / "table"))
    for name, (kind, _) in TRANSFORMS.items():
        builder = builder.addColumn(name, kind)
    for number, rule in enumerate(DERIVATION_RULES):
        column = names.get(rule.source.__name__, "s")
        expression = rule.expression.replace("{width}", "2").replace("{column}", f"`{column}`")
        kind = {"LongType": "BIGINT", "IntegerType": "INT", "DateType": "DATE"}.get(type(rule.type).__name__, "STRING")
        generated = tables.columnBuilder(session, f"g{number}").dataType(kind).generatedAlwaysAs(expression)
        builder = builder.addColumn(generated.build())
    builder.execute()
    columns = spark.table(f"delta.`{tmp_path / 'table'}`").columns
    assert columns == [*TRANSFORMS, *(f"g{number}" for number in range(len(DERIVATION_RULES)))]
