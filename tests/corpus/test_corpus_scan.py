"""``scan`` of every table that another engine wrote equals the rows that an engine read, or says why not.

A case whose outcome is not ``equal`` stands in expectations.json with its reason; one that becomes equal fails here until
it is taken out, so the list can only shrink.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def judge(outcome: Any, got: Path, wanted: Path, case: Any, difference: Any) -> tuple[str, str]:
    """``equal``, ``refused``, ``failed``, ``readable`` (no rows to compare with) or ``wrong``; and the evidence."""
    lines = outcome.err.strip().splitlines()
    if outcome.code == 3:
        return "refused", lines[-1]
    if outcome.code:
        assert len(lines) == 1, f"an error is one line: {outcome.err}"
        assert "defect" not in lines[0], lines[0]
        return "failed", lines[0]
    if not wanted.exists():
        return "readable", ""
    text = difference(pq.read_table(got), pq.read_table(wanted), json_columns=case.json_columns)
    return ("wrong", text) if text else ("equal", "")


def test_scan_equals_the_expected_rows(
    shared: Path, case: Any, command: Any, difference: Any, expectations: Any, tmp_path: Path
) -> None:
    listed = expectations["scan"].get(case.name, {"outcome": "equal"})
    out = tmp_path / "rows.parquet"
    outcome = command("scan", case.table, "--out", out, *case.relocation)
    result, evidence = judge(outcome, out, case.folder / "expected.parquet", case, difference)
    if result == "readable" and listed["outcome"] == "equal":
        return
    assert result == listed["outcome"], f"{case.name}: {result} instead of {listed['outcome']}: {evidence}"
    if result in {"refused", "failed"}:
        assert listed["because"] in evidence
        assert not out.exists(), "nothing half-written is left behind"


def test_scan_at_a_point_of_history_equals_its_rows(
    shared: Path, moment: Any, command: Any, difference: Any, expectations: Any, tmp_path: Path
) -> None:
    case, key = moment
    name = f"{case.name}@{key}"
    listed = expectations["history"].get(name, {"outcome": "equal"})
    if key.startswith("ref_"):
        at = ("--ref", key.removeprefix("ref_"))
    else:
        at = ("--version", key.removeprefix("v")) if case.format == "delta" else ("--snapshot-id", key)
    out = tmp_path / "rows.parquet"
    outcome = command("scan", case.table, "--out", out, *at, *case.relocation)
    result, evidence = judge(outcome, out, case.folder / f"expected_{key}.parquet", case, difference)
    assert result == listed["outcome"], f"{name}: {result} instead of {listed['outcome']}: {evidence}"
    if result in {"refused", "failed"}:
        assert listed["because"] in evidence


def test_the_list_names_cases_that_exist(shared: Path, expectations: Any) -> None:
    corpus = shared / "corpus"
    for verb in expectations.values():
        for name, listed in verb.items():
            assert (corpus / name.split("@")[0]).is_dir(), name
            assert listed["outcome"] in {"refused", "failed", "unread", "wrong"}
            assert listed["because"], f"{name}: why?"
