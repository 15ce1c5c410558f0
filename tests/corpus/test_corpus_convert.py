"""Every table of the corpus, converted, reads equal in engines that nobody here wrote, or is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def test_a_converted_table_reads_equal_in_other_engines(
    shared: Path, case: Any, command: Any, oracle: Any, difference: Any, expectations: Any, tmp_path: Path
) -> None:
    listed = expectations["convert"].get(case.name, {"outcome": "equal"})
    to = "iceberg" if case.format == "delta" else "delta"
    target = tmp_path / "target"
    outcome = command("convert", case.table, "--to", to, "--target", target, *case.relocation)
    lines = outcome.err.strip().splitlines()
    if outcome.code:
        result, evidence = ("refused" if outcome.code == 3 else "failed"), lines[-1]
        assert "defect" not in evidence, evidence
        assert not any(target.rglob("*.json")), "nothing half-written is left behind"
    else:
        result, evidence = readings(case, to, target, oracle, difference)
    if result == "readable" and listed["outcome"] == "equal":
        return
    assert result == listed["outcome"], f"{case.name}: {result} instead of {listed['outcome']}: {evidence}"
    assert listed.get("because", "") in evidence


def readings(case: Any, to: str, target: Path, oracle: Any, difference: Any) -> tuple[str, str]:
    """What two engines see: ``equal`` when all that can read it see the expected rows."""
    wanted = case.folder / "expected.parquet"
    if not wanted.exists():
        return "readable", ""
    if to == "iceberg":
        metadata = max((target / "metadata").glob("*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        readers = {"duckdb-iceberg": metadata, "pyiceberg": metadata}
    else:
        readers = {"duckdb-delta": target, "deltalake": target}
    notes, verdicts = [], []
    for engine, where in readers.items():
        got = oracle.read(engine, where)
        if isinstance(got, str):
            notes.append(got)
            continue
        text = difference(got, pq.read_table(wanted), json_columns=case.json_columns)
        verdicts.append(not text)
        if text:
            notes.append(f"{engine}: {text}")
    evidence = " | ".join(notes)
    if not verdicts:
        return "unread", evidence
    return ("equal" if all(verdicts) else "wrong"), evidence
