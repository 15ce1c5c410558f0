"""Every reason to rewrite a file: both engines make the same table of it, and other engines read the source's rows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.source import IcebergSource, Source, open_source
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate import codes
from deltaberg.translate.findings import Severity
from deltaberg.translate.options import ConvertOptions

CLOCK_MS = 1_700_000_000_000


def _cases() -> Any:
    spec = importlib.util.spec_from_file_location("rewrite_cases", Path(__file__).with_name("rewrite_cases.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["rewrite_cases"] = module
    spec.loader.exec_module(module)
    return module


CASES = _cases().CASES


def opened(place: Path | str) -> Source:
    return open_source(str(place), open_storage())


def entries(done: ConvertResult) -> list[str]:
    """What the target says of its files; names of rewritten ones and of vectors are each run's own."""
    table = opened(done.target)
    if isinstance(table, IcebergSource):
        batches = list(data_files(table.table, table.snapshot))
        path = "file_path"
    else:
        batches = list(table.snapshot.add_files())
        path = "path"
    rows = [row for batch in batches for row in batch.to_pylist()]
    for row in rows:
        if "rewritten-" in row[path]:
            row[path] = "rewritten"
        if row.get("deletion_vector"):
            row["deletion_vector"]["path_or_inline_dv"] = "vector"
    return sorted(map(repr, rows))


def place_of(done: ConvertResult, to: str) -> Path:
    return Path(done.target_metadata if to == "iceberg" else done.target)


def read_by_others(done: ConvertResult, to: str, independent: Any) -> dict[str, pa.Table | str]:
    engines = ("duckdb-iceberg", "pyiceberg") if to == "iceberg" else ("duckdb-delta", "deltalake")
    return {engine: independent.read(engine, place_of(done, to)) for engine in engines}


@pytest.mark.parametrize("case", CASES, ids=[case.label for case in CASES])
def test_both_engines_make_the_same_table(
    case: Any, spark: Any, tmp_path: Path, independent: Any, difference: Any
) -> None:
    case.make(tmp_path / "source")
    done = {}
    for engine in ("local", "spark"):
        done[engine] = convert(
            opened(tmp_path / "source"),
            to=case.to,
            target=str(tmp_path / engine),
            options=ConvertOptions(**case.options, engine=engine),
            clock_ms=CLOCK_MS,
            session=spark if engine == "spark" else None,
        )
    local, cluster = done["local"], done["spark"]
    assert {item.code: item.severity for item in cluster.plan.items}[case.code] == "rewrite"
    assert cluster.plan.rewritten_files == case.files
    assert cluster.plan.cost["read_bytes"] > 0
    assert (cluster.files, cluster.rows, cluster.rewritten_files) == (local.files, local.rows, local.rewritten_files)
    assert cluster.rows == case.rows.num_rows
    assert entries(cluster) == entries(local)
    for engine, rows in read_by_others(cluster, case.to, independent).items():
        if engine in case.refused_by:
            continue
        assert not isinstance(rows, str), f"{engine}: {rows}"
        assert not difference(rows, case.rows), engine
    report = verify(opened(tmp_path / "source"), opened(cluster.target), rows=True)
    assert {check.name: check.equal for check in report.checks}["rows"], report.to_json()


@pytest.mark.parametrize("label", ["iceberg-vector", "delta-deletes"])
def test_a_replayed_history_is_the_same_too(
    label: str, spark: Any, tmp_path: Path, independent: Any, difference: Any
) -> None:
    """Rewritten files keep their names and their deleted rows through the versions."""
    case = next(case for case in CASES if case.label == label)
    case.make(tmp_path / "source")
    done = [
        convert(
            opened(tmp_path / "source"),
            to=case.to,
            target=str(tmp_path / engine),
            options=ConvertOptions(**case.options, history="all"),
            clock_ms=CLOCK_MS,
            session=spark if engine == "spark" else None,
        )
        for engine in ("local", "spark")
    ]
    local, cluster = done
    assert len(cluster.commits) == len(local.commits) == 2
    assert cluster.rewritten_files == local.rewritten_files >= 1
    assert entries(cluster) == entries(local)
    rows = independent.read("pyiceberg" if case.to == "iceberg" else "deltalake", place_of(cluster, case.to))
    assert not isinstance(rows, str), rows
    assert not difference(rows, case.rows)


def test_every_reason_has_a_case() -> None:
    """A code that makes ``plan`` rewrite files, by itself or with --strict."""
    every = codes.ALL_CODES
    rewriting = {
        (code.name, to) for code in every for to in code.to if Severity.REWRITE in (code.severity, code.strict)
    }
    covered = {(case.code, case.to) for case in CASES}
    assert rewriting - covered == set()
