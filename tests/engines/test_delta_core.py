"""The reference implementation reads what the Delta core writes with every feature, writes on, and the core reads that."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg import delta
from deltaberg.storage import open_storage
from tests.delta_features import TABLES, FeatureTable, rows_here, write

# Tables with a feature that a generation's Delta does not open, and what it names then.
_BY_NONE = {
    "usage of column mapping": "columnMappingUsageTracking",
    "collation": "collations",
    "geometry": "(?i)geospatial",
}
UNKNOWN_TO_SPARK: dict[str, dict[str, str]] = {
    "spark-4.1": _BY_NONE,
    "spark-3.5": {
        **_BY_NONE,
        "iceberg compatibility 3": "icebergCompatV3",
        "materialized partition columns": "materializePartitionColumns",
        "variant": "variantType",
        "shredded variant": "variantType|variantShredding",
        "type widening": "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_PREVIEW",
    },
}


def statements(table: FeatureTable, sql: str) -> list[str]:
    """An append, a change, a removal and a compaction, as far as the table allows them."""
    given = {each.name: each.sql for each in table.extra if each.sql is not None}
    columns, values = ", ".join(("id", "name", "n", *given)), "".join(f", {value}" for value in given.values())
    added = f"INSERT INTO {sql} ({columns}) VALUES (8, 'new', 8{values}), (9, NULL, NULL{values})"
    changed = (f"UPDATE {sql} SET name = 'changed' WHERE id = 5", f"DELETE FROM {sql} WHERE id IN (4, 8)")
    return [added, *(() if table.deletes == "nothing" else changed), f"OPTIMIZE {sql}"]


@pytest.mark.parametrize("name", TABLES)
def test_spark_reads_every_feature_and_writes_on(
    run: Any, query: Callable[[str], pa.Table], warehouse: Path, difference: Any, generation: Any, name: str
) -> None:
    table, folder = TABLES[name], warehouse / "delta_core" / name.replace(" ", "_")
    variants = tuple(each.name for each in table.extra if pa.types.is_struct(each.values([1]).type))
    write(folder, table)
    sql = f"delta.`{folder}`"
    unknown = UNKNOWN_TO_SPARK[generation.name].get(name)
    if unknown is not None:
        with pytest.raises(AssertionError, match=unknown):
            run(f"INSERT INTO {sql} (id) VALUES (1)")
        return
    here = rows_here(folder)
    assert sorted(here["id"].to_pylist()) == table.left
    assert not difference(here, query(f"SELECT * FROM {sql}"), json_columns=variants)
    assert sorted(query(f"SELECT id FROM {sql} VERSION AS OF 1")["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    for statement in statements(table, sql):
        run(statement)
        assert not difference(rows_here(folder), query(f"SELECT * FROM {sql}"), json_columns=variants), statement
    if table.breaks is not None:
        broken, message = table.breaks
        with pytest.raises(Exception, match=message):
            run(broken.format(table=sql))
    base = delta.DeltaTable.open(str(folder), open_storage()).snapshot()
    for feature in table.declares:
        assert base.protocol.supports(feature)
    for domain, configuration in table.domains.items():
        assert base.domain_metadata[domain].configuration == configuration
    if table.deletes == "nothing":
        return
    with delta.begin_transaction(base) as transaction:
        transaction.remove_files(base.add_files())
        transaction.commit("DELETE", copies_rows=False)
    assert query(f"SELECT * FROM {sql}").num_rows == 0


def test_spark_computes_what_the_core_declares(
    run: Any, query: Callable[[str], pa.Table], warehouse: Path, difference: Any
) -> None:
    found = {}
    for name, column in (("generated column", "twice"), ("identity column", "number"), ("column default", "word")):
        folder = warehouse / "delta_core" / str(uuid.uuid4())
        write(folder, TABLES[name])
        run(f"INSERT INTO delta.`{folder}` (id, name, n) VALUES (8, 'new', 8)")
        rows = rows_here(folder)
        assert not difference(rows, query(f"SELECT * FROM delta.`{folder}`"))
        found[name] = dict(zip(rows["id"].to_pylist(), rows[column].to_pylist(), strict=True))
    assert found["generated column"] == {4: 8, 5: 10, 6: 12, 7: 14, 8: 16}
    assert found["identity column"] == {4: 4, 5: 5, 6: 6, 7: 7, 8: 8}
    assert found["column default"] == {4: "w4", 5: "w5", 6: "w6", 7: "w7", 8: "none"}


@pytest.mark.parametrize("name", ["row tracking", "iceberg compatibility 3"])
def test_spark_finds_the_row_ids_that_the_core_gave(
    run: Any, query: Callable[[str], pa.Table], warehouse: Path, difference: Any, generation: Any, name: str
) -> None:
    if name in UNKNOWN_TO_SPARK[generation.name]:
        pytest.skip(f"{generation} does not open the table")
    folder = warehouse / "delta_core" / str(uuid.uuid4())
    write(folder, TABLES[name])
    asked = "id, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version"

    def assert_equal() -> dict[int, int]:
        found = delta.read(
            delta.DeltaTable.open(str(folder), open_storage()).snapshot(), columns=["id"], with_lineage=True
        )
        rows = pa.Table.from_batches(found.batches(), found.schema)
        assert not difference(rows, query(f"SELECT {asked} FROM delta.`{folder}`"))
        return dict(zip(rows["id"].to_pylist(), rows["_row_id"].to_pylist(), strict=True))

    first = assert_equal()
    assert first == {each: each - 1 for each in TABLES[name].left}
    run(f"UPDATE delta.`{folder}` SET name = 'changed' WHERE id = 5", f"OPTIMIZE delta.`{folder}`")
    assert assert_equal() == first
