"""Every table feature that the core writes is written by a test, and read equal by delta-rs and DuckDB, or refused by
them in the words that are listed as their limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.protocol.table_features import FEATURES
from deltaberg.delta.protocol.writer_requirements import NOT_WRITABLE
from deltaberg.delta.table import DeltaTable
from deltaberg.storage import open_storage
from tests.delta_features import TABLES, FeatureTable, rows_here, write

READERS = ("deltalake", "duckdb")


def test_every_feature_that_is_written_has_a_table() -> None:
    written = {feature for table in TABLES.values() for feature in table.declares}
    for feature in FEATURES:
        if feature.alias_of is None and feature.refusal is None and feature.name not in NOT_WRITABLE:
            assert feature.name in written, f"nothing shows that {feature.name} is written right"


@pytest.mark.parametrize("name", TABLES)
def test_the_core_reads_back_what_it_wrote(tmp_path: Path, name: str) -> None:
    table = TABLES[name]
    write(tmp_path / "table", table)
    assert sorted(rows_here(tmp_path / "table")["id"].to_pylist()) == table.left
    assert sorted(rows_here(tmp_path / "table", 1)["id"].to_pylist()) == [1, 2, 3, 4, 5, 6, 7]
    protocol = DeltaTable.open(str(tmp_path / "table"), open_storage()).snapshot().protocol
    assert set(table.declares) <= set(protocol.features) <= {*table.declares, "appendOnly", "invariants"}


@pytest.mark.parametrize("engine", READERS)
@pytest.mark.parametrize("name", TABLES)
def test_other_engines_read_every_feature(
    tmp_path: Path, engines: Any, difference: Any, name: str, engine: str
) -> None:
    table = TABLES[name]
    write(tmp_path / "table", table)
    if engine in table.unread:
        with pytest.raises(pytest.fail.Exception, match=table.unread[engine]):
            engines.rows(engine, tmp_path / "table")
        return
    found, columns = engines.rows(engine, tmp_path / "table"), _comparable(table)
    assert difference(found.select(columns), rows_here(tmp_path / "table").select(columns)) == ""


def _comparable(table: FeatureTable) -> list[str]:
    """All columns but variants, whose form is each engine's own."""
    types = {each.name: each.values([1]).type for each in table.extra}
    return ["id", "name", "n", *(name for name, kind in types.items() if not pa.types.is_struct(kind))]
