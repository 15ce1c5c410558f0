"""Every table of the corpus, converted, reads equal in engines that nobody here wrote, or the plan refuses it by a code.

``convert`` in tests/exceptions.json is what is not equal: ``refused`` with the plan's code and words of its reason, ``unread`` where no engine
at hand knows the feature, ``wrong`` with the engines that read such a table wrong, whoever wrote it. There is no other outcome.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from deltaberg.migrate.plan_report import Plan
from deltaberg.translate.codes import ALL_CODES

DOCUMENT: Final = set(Plan(source={}, target={}).to_json())


def test_a_converted_table_reads_equal_in_other_engines(
    shared: Path, case: Any, converted: Any, oracle: Any, difference: Any, expectations: Any
) -> None:
    listed = expectations["convert"].get(case.name, {"outcome": "equal"})
    found = converted(case)
    to, target, planned, outcome = found.to, found.target, found.planned, found.outcome
    assert (planned.code, outcome.code) in {(0, 0), (3, 3)}, f"{case.name}: {planned.err}{outcome.err}"
    document = json.loads(planned.out)
    assert set(document) == DOCUMENT
    if outcome.code:
        evidence = outcome.err.strip()
        assert len(evidence.splitlines()) == 1, f"an error is one line: {evidence}"
        assert json.loads(outcome.out)["plan"] == document
        assert not target.exists(), "nothing half-written is left behind"
        assert listed["outcome"] == "refused", f"{case.name}: refused instead of {listed['outcome']}: {evidence}"
        refusing = [item for item in document["items"] if item["severity"] == "refuse"]
        assert listed["code"] in {item["code"] for item in refusing}
        assert listed["because"] in evidence
        return
    assert not document["refused"]
    if not (case.folder / "expected.parquet").exists():
        assert listed["outcome"] == "equal", f"{case.name} is converted now: take it out of the list"
        return
    verdicts = readings(case, to, target, oracle, difference)
    wrong = sorted(engine for engine, text in verdicts.items() if text.startswith("wrong"))
    if wrong:
        result = "wrong"
    else:
        result = "equal" if "equal" in verdicts.values() else "unread"
    assert result == listed["outcome"], f"{case.name}: {result} instead of {listed['outcome']}: {verdicts}"
    assert wrong == listed.get("engines", []), verdicts


def readings(case: Any, to: str, target: Path, oracle: Any, difference: Any) -> dict[str, str]:
    """What each engine sees: ``equal``, ``wrong ...`` or ``stops ...``."""
    wanted = pq.read_table(case.folder / "expected.parquet")
    if to == "iceberg":
        metadata = max((target / "metadata").glob("*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
        readers = {"duckdb-iceberg": metadata, "pyiceberg": metadata}
    else:
        readers = {"duckdb-delta": target, "deltalake": target}
    verdicts = {}
    for engine, where in readers.items():
        got = oracle.read(engine, where)
        if isinstance(got, str):
            verdicts[engine] = f"stops: {got}"
        else:
            text = difference(got, wanted, json_columns=case.json_columns)
            verdicts[engine] = f"wrong: {text}" if text else "equal"
    return verdicts


def test_the_list_names_cases_that_exist(shared: Path, expectations: Any) -> None:
    corpus = shared / "corpus"
    for verb in expectations.values():
        for name, listed in verb.items():
            assert (corpus / name).is_dir(), name
            assert listed["outcome"] in {"refused", "unread", "wrong"}
            assert listed["because"], f"{name}: why?"
            if listed["outcome"] == "refused":
                assert listed["code"] in {code.name for code in ALL_CODES}
