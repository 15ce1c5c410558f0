"""Every engine reads every conversion of the tables that Spark made; docs/compatibility.md is what this run saw.

``DELTABERG_WRITE_DOCS=1 make test-engines`` writes the page; otherwise it is compared with the run, so that it can neither
promise more nor less than what is so. A wrong row is never accepted as a limitation unless it stands in WRONG with its evidence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"

READERS = {
    "iceberg": {"DuckDB": "duckdb-iceberg", "PyIceberg": "pyiceberg", "Polars": "polars-iceberg"},
    "delta": {
        "DuckDB": "duckdb-delta",
        "delta-rs": "deltalake",
        "DataFusion": "datafusion-delta",
        "Polars": "polars-delta",
    },
}
PACKAGES = {
    "DuckDB": "duckdb",
    "PyIceberg": "pyiceberg",
    "delta-rs": "deltalake",
    "DataFusion": "datafusion",
    "Polars": "polars",
    "Spark": "pyspark",
}
# Engines that read other rows than the source's from a target, by (target format, table, engine), with what is wrong in them.
WRONG: dict[tuple[str, str, str], str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one engine made of one target. result: ``equal``, ``refused`` (by deltaberg), ``stops`` or ``wrong``."""

    to: str
    table: str
    about: str
    engine: str
    result: str
    evidence: str = ""


@pytest.fixture(scope="session")
def readings() -> list[Reading]:
    """Filled by the tests of this file, in their order."""
    return []


def about(script: Path) -> str:
    """The first line of a script says what its table is about."""
    return script.read_text(encoding="utf-8").splitlines()[0].removeprefix("-- ").rstrip(".")


def without_places(text: str) -> str:
    """An engine's words without the names of this run's files and with nothing that a Markdown table takes amiss."""
    text = re.sub(r"(?:file:)?/[^\s'\",;)]+", "FILE", text)
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27,}", "UUID", text).replace("|", "/")[:160]


def judge(
    script: Path,
    to: str,
    target: Path | None,
    where: Path | None,
    wanted: pa.Table,
    spark_rows: Callable[[], pa.Table],
    independent: Any,
    difference: Any,
    readings: list[Reading],
) -> None:
    """Let every engine read the target and note what it saw; no engine may see other rows without being listed."""
    base = {"to": to, "table": script.stem, "about": about(script)}
    if target is None:
        readings.extend(Reading(**base, engine=engine, result="refused") for engine in ("Spark", *READERS[to]))
        return
    text = difference(spark_rows(), wanted)
    assert not text, f"Spark {version('pyspark')} reads {where}: {text}"
    readings.append(Reading(**base, engine="Spark", result="equal"))
    for engine, reader in READERS[to].items():
        got = independent.read(reader, where)
        known = WRONG.get((to, script.stem, engine))
        if isinstance(got, str):
            readings.append(
                Reading(**base, engine=engine, result="stops", evidence=without_places(got.split(": ", 1)[-1]))
            )
            continue
        text = difference(got, wanted)
        if text:
            assert known, f"{engine} {version(PACKAGES[engine])} reads {where}: {text}"
            readings.append(Reading(**base, engine=engine, result="wrong", evidence=known))
        else:
            assert not known, f"{engine} reads {where} right: take it out of WRONG"
            readings.append(Reading(**base, engine=engine, result="equal"))


def test_engines_read_the_iceberg_targets(
    delta_script: Path,
    delta_table: Any,
    query: Any,
    warehouse: Path,
    independent: Any,
    difference: Any,
    readings: list[Reading],
) -> None:
    source = delta_table(delta_script)
    target: Path | None = warehouse / "compatibility" / source.name
    where = None
    if source.refused:
        target = None
    else:
        where = Path(deltaberg.convert(source.folder, to="iceberg", target=target).target_metadata)
    wanted = query(f"SELECT * FROM {source.sql}")
    read = lambda: query(f"SELECT * FROM ice.compatibility.{source.name}")  # noqa: E731
    judge(delta_script, "iceberg", target, where, wanted, read, independent, difference, readings)


def test_engines_read_the_delta_targets(
    iceberg_script: Path,
    iceberg_table: Any,
    query: Any,
    tmp_path: Path,
    independent: Any,
    difference: Any,
    readings: list[Reading],
) -> None:
    source = iceberg_table(iceberg_script)
    target: Path | None = tmp_path / source.name
    if source.refused:
        target = None
    else:
        deltaberg.convert(source.folder, to="delta", target=target)
    wanted = query(f"SELECT * FROM {source.sql}")
    read = lambda: query(f"SELECT * FROM delta.`{target}`")  # noqa: E731
    judge(iceberg_script, "delta", target, target, wanted, read, independent, difference, readings)


def page(readings: list[Reading], connectors: str) -> str:
    """docs/compatibility.md."""
    versions = ", ".join(f"{name} {version(package)}" for name, package in PACKAGES.items())
    lines = [
        "# Which engine reads what deltaberg writes",
        "",
        "Made from a run of the tests (`tests/engines/test_compatibility.py`), which fail when this page says anything else. Each",
        "line is a table that Spark wrote, converted by deltaberg and read again; the rows must equal the source's.",
        "",
        f"Versions: {versions}; Spark with {connectors}. DataFusion and Polars read Delta through delta-rs, Polars reads Iceberg",
        "through PyIceberg.",
        "",
        "**equal**: every row. **refused**: deltaberg refuses the conversion as long as no option chooses what to do; see",
        "[codes.md](codes.md). **stops**: the engine says that it cannot read such a table. **wrong**: the engine reads other rows",
        "than Spark; deltaberg warns.",
    ]
    for to, title in (("iceberg", "Delta Lake to Iceberg"), ("delta", "Iceberg to Delta Lake")):
        engines = ["Spark", *READERS[to]]
        lines += [
            "",
            f"## {title}",
            "",
            f"| table | about | {' | '.join(engines)} |",
            "|---|---|" + "---|" * len(engines),
        ]
        tables = {(reading.table, reading.about): {} for reading in readings if reading.to == to}
        notes: list[str] = []
        for reading in readings:
            if reading.to == to:
                mark = reading.result
                if reading.evidence:
                    note = f"{reading.engine}, `{reading.table}`: {reading.evidence}"
                    notes.append(note)
                    mark += f" [{len(notes)}]"
                tables[reading.table, reading.about][reading.engine] = mark
        for (table, what), results in tables.items():
            lines.append(f"| `{table}` | {what} | {' | '.join(results[engine] for engine in engines)} |")
        if notes:
            lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    return "\n".join(lines) + "\n"


def test_the_page_is_what_this_run_saw(readings: list[Reading], generation: Any) -> None:
    scripts = list((Path(__file__).parent / "sources").glob("*/*.sql"))
    if len({(reading.to, reading.table) for reading in readings}) < len(scripts):
        pytest.skip("only a part of the tables was read")
    connectors = " and ".join(
        coordinate.split(":")[1] + " " + coordinate.split(":")[2]
        for coordinate in (generation.iceberg, generation.delta)
    )
    text = page(readings, connectors)
    if os.environ.get("DELTABERG_WRITE_DOCS"):
        PAGE.write_text(text, encoding="utf-8")
    versions = next(line for line in text.splitlines() if line.startswith("Versions: "))
    if versions not in PAGE.read_text(encoding="utf-8"):
        pytest.skip("the page was made with other versions of the engines")
    assert PAGE.read_text(encoding="utf-8") == text, "run: DELTABERG_WRITE_DOCS=1 make test-engines"
