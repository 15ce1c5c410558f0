"""Every Delta table that another engine wrote scans equal to the rows that an engine read, at every version with
expected rows, with row ids where they are known.

The exceptions stand in ``tests/exceptions.json`` under ``scan``: an error that is the right answer to a broken table, with the
words it must say, or a difference, with the reason. A listed case that scans equal fails here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.delta.scan import scan
from deltaberg.delta.snapshot import Snapshot
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import DeltabergError
from deltaberg.storage import open_storage

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "delta"
Difference = Callable[..., str]
CATALOGUE = Path(__file__).resolve().parents[1] / "exceptions.json"
EXCEPTIONS: dict[str, dict[str, str]] = {
    name.removeprefix("delta/"): judged["scan"]
    for name, judged in json.loads(CATALOGUE.read_text(encoding="utf-8"))["tables"].items()
    if name.startswith("delta/") and "scan" in judged
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A table at the version of one file of expected rows; ``expected`` may be missing for a table nobody could read."""

    name: str
    folder: Path
    expected: Path

    @property
    def version(self) -> int | None:
        stem = self.expected.stem
        return int(stem.removeprefix("expected_v")) if stem.startswith("expected_v") else None

    @property
    def case(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "case.json").read_text())
        return loaded

    def snapshot(self) -> Snapshot:
        case, table = self.case, self.folder / "table"
        moved = {case["location"]: str(table)} if case.get("location") else {}
        moved |= {old: str(self.folder / new) for old, new in (case.get("relocate") or {}).items()}
        return DeltaTable.open(str(table), open_storage(relocate=moved)).snapshot(self.version)


def moments() -> list[Moment]:
    found = []
    for folder in sorted(CORPUS.iterdir()) if CORPUS.is_dir() else []:
        files = [
            folder / "expected.parquet",
            *sorted(folder.glob("expected_v*.parquet")),
            *folder.glob("lineage.parquet"),
        ]
        for file in files:
            name = folder.name if file.stem == "expected" else f"{folder.name}@{file.stem.removeprefix('expected_')}"
            found.append(Moment(name=name, folder=folder, expected=file))
    return found


MOMENTS = moments()


def read(moment: Moment) -> pa.Table:
    plan = scan(moment.snapshot(), with_lineage=moment.expected.stem == "lineage")
    return pa.Table.from_batches(plan.batches(), schema=plan.schema)


@pytest.mark.skipif(not MOMENTS, reason="../shared is absent")
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name)
def test_scan_equals_the_expected_rows(moment: Moment, difference: Difference) -> None:
    listed = EXCEPTIONS.get(moment.name, {})
    if "error" in listed:
        with pytest.raises(DeltabergError, match=re.escape(listed["says"])) as caught:
            read(moment)
        assert type(caught.value).__name__ == listed["error"]
        return
    found = read(moment)
    if not moment.expected.exists():
        assert not listed, f"{moment.name} is listed and can be read"
        return
    columns = tuple(moment.case.get("variant_as_json") or ())
    text = difference(found, pq.read_table(moment.expected), json_columns=columns)
    if "differs" in listed:
        assert listed["differs"] in text, f"{moment.name} is listed and differs otherwise or not: {text!r}"
    else:
        assert text == ""


def test_the_exceptions_name_cases_and_give_reasons() -> None:
    if MOMENTS:
        assert EXCEPTIONS.keys() <= {moment.name for moment in MOMENTS}
    for listed in EXCEPTIONS.values():
        assert listed.keys() in ({"error", "says", "because"}, {"differs", "because"})
        assert all(listed.values())


@pytest.mark.skipif(not MOMENTS, reason="../shared is absent")
def test_zoneless_partition_timestamps_are_right_in_the_writers_zone(difference: Difference) -> None:
    (moment,) = (moment for moment in MOMENTS if moment.name == "data-reader-partition-values")
    plan = scan(moment.snapshot(), partition_timezone="America/Los_Angeles")
    assert difference(pa.Table.from_batches(plan.batches()), pq.read_table(moment.expected)) == ""
