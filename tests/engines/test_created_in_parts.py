"""Spark reads and writes tables whose first version is a checkpoint in parts, and sees nothing of them before."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from deltaberg.storage import open_storage
from tests.delta.test_create_in_parts import WHOLE, Watched, create
from tests.independent_readers import delta_rs, duckdb_delta


def ids(query: Any, folder: Path, at: str = "") -> list[int]:
    return sorted(query(f"SELECT id FROM delta.`{folder}` {at}")["id"].to_pylist())


def test_spark_writes_on_top_and_the_others_read_it(spark: Any, query: Any, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    create(folder, open_storage())
    assert ids(query, folder) == WHOLE
    for statement in (
        "INSERT INTO {t} VALUES (1000, 'p0'), (1001, 'p1')",
        "DELETE FROM {t} WHERE id % 7 = 3",
        "UPDATE {t} SET id = id + 2000 WHERE id = 4",
        "OPTIMIZE {t}",
    ):
        spark.sql(statement.format(t=f"delta.`{folder}`"))
    wanted = sorted([each for each in WHOLE if each % 7 != 3 and each != 4] + [1000, 1001, 2004])
    assert ids(query, folder) == wanted
    for reader in (delta_rs, duckdb_delta):
        assert sorted(reader(str(folder), None)["id"].to_pylist()) == wanted
    assert ids(query, folder, "VERSION AS OF 1") == WHOLE
    history = query(f"DESCRIBE HISTORY delta.`{folder}`")["version"].to_pylist()
    assert min(history) == 1


def test_spark_sees_no_part_of_it(spark: Any, query: Any, tmp_path: Path) -> None:
    seen: list[tuple[str, bool]] = []

    def look(what: str, location: str) -> None:
        copy = tmp_path / f"copy-{len(seen)}"
        # Spark remembers what it has seen of a folder, so it looks at a copy.
        shutil.copytree(tmp_path / "t", copy)
        try:
            found = ids(query, copy)
        except Exception:  # noqa: BLE001  a refusal of whatever kind shows nothing
            seen.append((Path(location).name, False))
            return
        assert found == WHOLE
        seen.append((Path(location).name, True))

    create(tmp_path / "t", Watched(look))
    visible = [name for name, whole in seen if whole]
    assert visible[0] == "00000000000000000001.json"
    assert seen[0] == ("00000000000000000000.json", False)
