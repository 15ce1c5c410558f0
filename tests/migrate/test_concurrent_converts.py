"""Two conversions to one target at the same time: one wins, and nothing of it is touched by the one that loses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.table import DeltaTable
from deltaberg.errors import Conflict
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.target.watermark import PLAN_KEY
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

CLOCK_MS = 1_700_000_000_000
FIRST_COMMITS = ("v1.metadata.json", f"{0:020}.json")


class Overtaken:
    """A storage during whose first commit somebody else does ``meanwhile``."""

    def __init__(self, meanwhile: Callable[[], Any], names: tuple[str, ...] = FIRST_COMMITS) -> None:
        self._real, self._meanwhile, self._names = open_storage(), meanwhile, names
        self.overtaken = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _before(self, location: str) -> None:
        if location.rpartition("/")[2] in self._names and not self.overtaken:
            self.overtaken = True
            self._meanwhile()

    def put_if_absent(self, location: str, data: bytes) -> None:
        self._before(location)
        self._real.put_if_absent(location, data)


@pytest.fixture(params=["iceberg", "delta"])
def to(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source_place(tmp_path: Path, to: str, write_delta: Any, delete_from_delta: Any, opened: Any) -> str:
    """A table of the other format with deleted rows."""
    folder = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), tmp_path / "first")
    write_delta(pa.table({"id": [4, 5], "s": ["c", "d"]}), folder)
    delete_from_delta(folder, {0: [0], 1: [1]})
    if to == "iceberg":
        return str(folder)
    options = ConvertOptions(format_version=2)
    return convert(opened(folder), to="iceberg", target=str(tmp_path / "second"), options=options).target


def names_below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_the_loser_takes_only_its_own_files_away(tmp_path: Path, source_place: str, to: str, opened: Any) -> None:
    target = tmp_path / "target"
    won: list[ConvertResult] = []
    seen: list[set[str]] = []

    def win() -> None:
        alone = names_below(target)
        won.append(convert(opened(source_place), to=to, target=str(target), clock_ms=CLOCK_MS))
        seen.append(names_below(target) - {name for name in alone if (target / name).is_file()})

    with pytest.raises(Conflict):
        convert(opened(source_place, storage=Overtaken(win)), to=to, target=str(target), clock_ms=CLOCK_MS)
    assert names_below(target) == seen[0]
    assert verify(opened(source_place), opened(target), rows=True).equal
    properties = (
        Table.open(str(target), open_storage()).metadata.properties
        if to == "iceberg"
        else DeltaTable.open(str(target), open_storage()).snapshot().metadata.configuration
    )
    document = json.loads((target / properties[PLAN_KEY]).read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(won[0].plan.to_json()))
    assert convert(opened(source_place), to=to, target=str(target)).already_current


class TestReplaysOfOneHistory:
    """Files that are rewritten have the same name in all versions of one replay; here the second version has one."""

    @pytest.fixture
    def place(self, catalog: Any) -> str:
        types, schemas = pytest.importorskip("pyiceberg.types"), pytest.importorskip("pyiceberg.schema")
        schema = schemas.Schema(
            types.NestedField(1, "id", types.LongType()), types.NestedField(2, "name", types.StringType())
        )
        table = catalog.create_table("n.t", schema)
        table.append(pa.table({"id": range(500), "name": [f"name {number}" for number in range(500)]}))
        with table.update_schema() as update:
            update.rename_column("name", "called")
        table.append(pa.table({"id": [3, 4, 5, 6], "called": ["c", "d", "e", "f"]}))
        return str(table.metadata_location)

    @staticmethod
    def replay(source: Any, target: Path) -> ConvertResult:
        options = ConvertOptions(history="all", former_names="rewrite")
        return convert(source, to="delta", target=str(target), options=options, clock_ms=CLOCK_MS)

    def test_begun_at_the_same_time(self, tmp_path: Path, place: str, opened: Any) -> None:
        target = tmp_path / "target"
        storage = Overtaken(lambda: self.replay(opened(place), target))
        with pytest.raises(Conflict):
            self.replay(opened(place, storage=storage), target)
        assert verify(opened(place), opened(target), rows=True).equal
        assert len(list((target / "_deltaberg").glob("rewritten-*.parquet"))) == 1
        assert len(list((target / "_deltaberg").glob("plan-*.json"))) == 1

    def test_two_that_go_on_with_the_same_one(self, tmp_path: Path, place: str, opened: Any) -> None:
        target = tmp_path / "target"
        self.replay(opened(place), target)
        (target / "_delta_log" / f"{1:020}.json").unlink()
        (target / "_delta_log" / f"{1:020}.crc").unlink(missing_ok=True)
        storage = Overtaken(lambda: self.replay(opened(place), target), (f"{1:020}.json",))
        with pytest.raises(Conflict):
            self.replay(opened(place, storage=storage), target)
        assert storage.overtaken
        assert verify(opened(place), opened(target), rows=True).equal
