"""Every target that the corpus converts to is read by Spark and equals the source rows.

Without ``DELTABERG_CORPUS=whole`` a covering selection is read: in the order of their names, each table whose target has a
feature, a type, a partitioning or a kind of delete that no table before it had. tests/exceptions.json lists what Spark itself cannot read (``unread``)
and where the expected rows are not Spark's under the settings here (``wrong``), with its words, by generation; the list may only
shrink. ``DELTABERG_WRITE_DOCS=1`` with the whole corpus writes the counts of whole_corpus.json, which docs/compatibility.md shows.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaberg

CATALOGUE = Path(__file__).resolve().parents[1] / "exceptions.json"
WHOLE_CORPUS = Path(__file__).parent / "whole_corpus.json"
IN_A_BUCKET = {"iceberg/generated_bounds"}
# Spark runs jobs beside each other; most of a tiny one is waiting.
AT_ONCE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One table of the corpus that can be converted and whose rows are known. traits: what could make an engine read it wrong."""

    name: str
    to: str
    table: Path
    relocate: dict[str, str]
    traits: frozenset[str]
    expected: Path
    json_columns: tuple[str, ...]


def opened(folder: Path) -> Case | None:
    """The corpus table in ``folder``; None where it is refused or nobody knows its rows."""
    facts = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    name, expected = f"{folder.parent.name}/{folder.name}", folder / "expected.parquet"
    if not expected.exists() or name in IN_A_BUCKET:
        return None
    table = folder / "table"
    relocate = {facts["location"]: str(table)} if facts.get("location") else {}
    relocate |= {old: str(folder / new) for old, new in (facts.get("relocate") or {}).items()}
    to = "iceberg" if facts["format"] == "delta" else "delta"
    source = table / facts["metadata"] if to == "delta" and facts.get("metadata") else table
    try:
        plan = deltaberg.plan(source, to=to, relocate=relocate)
        described = deltaberg.inspect(source, format=facts["format"], relocate=relocate).to_json()
    except deltaberg.DeltabergError:
        return None
    if plan.refused:
        return None
    return Case(
        name=name,
        to=to,
        table=source,
        relocate=relocate,
        traits=traits(plan, described),
        expected=expected,
        json_columns=tuple(facts.get("variant_as_json") or ()),
    )


def traits(plan: Any, described: dict[str, Any]) -> frozenset[str]:
    """Direction, findings, features, types, partition types, deletes, target versions; numbers in types do not count."""
    types = {column["name"]: re.sub(r"[0-9]+", "N", str(column["type"])) for column in described["columns"]}
    target = plan.target
    found = {
        *(f"finding {item.code}" for item in plan.items),
        *(f"deletes {kind}" for kind, count in plan.deletes.items() if count and kind != "rows"),
        *(f"feature {each}" for each in described["features"]),
        *(f"type {kind if len(kind) < 30 else 'nested'}" for kind in types.values()),
        *(f"partition {types.get(name, name)}" for name in target["partitioning"]),
        f"source {described['format_version']}",
        *(f"{key} {target.get(key)}" for key in ("format_version", "row_lineage", "column_mapping", "row_tracking")),
        "rewritten files" if plan.rewritten_files else "shared files" if plan.files else "no files",
    }
    return frozenset(f"{target['format']} {each}" for each in found)


def covering(cases: list[Case]) -> list[Case]:
    """The tables that bring a trait that those before them lack."""
    seen: set[str] = set()
    chosen = []
    for case in cases:
        if case.traits - seen:
            seen |= case.traits
            chosen.append(case)
    return chosen


@pytest.fixture(scope="session")
def cases(shared: Path) -> list[Case]:
    found = (opened(folder) for folder in sorted((shared / "corpus").glob("*/*")) if folder.is_dir())
    every = [case for case in found if case is not None]
    return every if os.environ.get("DELTABERG_CORPUS") == "whole" else covering(every)


@pytest.fixture(scope="session")
def expectations(generation: Any) -> dict[str, dict[str, str]]:
    """``{case: {"outcome", "because"}}`` of the cases whose outcome is not ``equal``."""
    tables = json.loads(CATALOGUE.read_text(encoding="utf-8"))["tables"]
    return {name: judged[generation.name] for name, judged in tables.items() if generation.name in judged}


@pytest.mark.parametrize("to", ["iceberg", "delta"])
def test_spark_reads_the_rows_of_the_source(
    to: str,
    cases: list[Case],
    expectations: dict[str, dict[str, str]],
    spark: Any,
    arrow: Callable[[Any], pa.Table],
    warehouse: Path,
    difference: Callable[..., str],
    generation: Any,
) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    def read(case: Case) -> tuple[str, str]:
        """``equal``, ``unread`` or ``wrong``; and, where that is not what is expected, the file, the query and why."""
        name = re.sub(r"\W", "_", case.name)
        target = warehouse / "corpus" / name
        result = deltaberg.convert(case.table, to=to, target=target, relocate=case.relocate)
        sql = f"SELECT * FROM {f'ice.corpus.{name}' if to == 'iceberg' else f'delta.`{target}`'}"
        try:
            got = arrow(spark.sql(sql))
        except (Py4JError, PySparkException) as error:
            outcome = f"unread: {' '.join(str(error).split())[:2000]}"
        else:
            outcome = difference(got, pq.read_table(case.expected), json_columns=case.json_columns)
            outcome = f"wrong: {outcome}" if outcome else "equal"
        listed = expectations.get(case.name, {"outcome": "equal", "because": ""})
        kind = outcome.partition(":")[0]
        if kind == listed["outcome"] and (listed["outcome"] == "wrong" or listed["because"] in outcome):
            return kind, ""
        return (
            kind,
            f"{case.name}: {listed['outcome']} expected of {generation}: {sql} ({result.target_metadata}): {outcome}",
        )

    mine = [case for case in cases if case.to == to]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(read, mine))
    if os.environ.get("DELTABERG_CORPUS") == "whole" and os.environ.get("DELTABERG_WRITE_DOCS"):
        record(generation, to, dict(sorted(Counter(kind for kind, _ in found).items())))
    failures = [text for _, text in found if text]
    assert not failures, "\n".join(failures)


def record(generation: Any, to: str, outcomes: dict[str, int]) -> None:
    counts = json.loads(WHOLE_CORPUS.read_text(encoding="utf-8"))
    counts.setdefault(generation.name, {"engine": str(generation)})[to] = outcomes
    WHOLE_CORPUS.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


def test_the_list_names_cases_that_exist(shared: Path, expectations: dict[str, dict[str, str]]) -> None:
    for name, listed in expectations.items():
        assert (shared / "corpus" / name).is_dir(), name
        assert listed["outcome"] in {"unread", "wrong"}
        assert listed["because"], f"{name}: why?"
