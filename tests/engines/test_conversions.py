"""Spark reads every conversion of the tables that it made: the rows, the schema, the nullability. So do other engines, and
docs/compatibility.md is what this run saw.

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
# What a type of the source is in the target, as Spark names it.
WIDENED = {"tinyint": "int", "smallint": "int"}
# Engines that read other rows than the source's from a target, by (target format, table, engine), with what is wrong in them.
EMPTY_FOR_NULL = "gives an empty collection for a null list of structs and a null map of structs"
VARIANT_BYTES = "gives the bytes of a variant as they are stored"
WRONG: dict[tuple[str, str, str], str] = {
    ("iceberg", "nested", "PyIceberg"): EMPTY_FOR_NULL,
    ("delta", "variant", "delta-rs"): VARIANT_BYTES,
    ("delta", "variant", "DataFusion"): VARIANT_BYTES,
}


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


def shape(spark: Any, sql: str) -> list[tuple[str, str, bool]]:
    """Name, type and nullability of every column, as Spark sees them."""
    fields = spark.table(sql).schema.fields
    return [(f.name, WIDENED.get(f.dataType.simpleString(), f.dataType.simpleString()), f.nullable) for f in fields]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judges:
    """All engines, and where their findings go."""

    spark: Any
    query: Callable[[str], pa.Table]
    independent: Any
    difference: Callable[..., str]
    readings: list[Reading]

    def refused(self, script: Path, to: str) -> None:
        for engine in ("Spark", *READERS[to]):
            self.readings.append(
                Reading(to=to, table=script.stem, about=about(script), engine=engine, result="refused")
            )

    def read(self, script: Path, to: str, source: str, target: str, where: Path) -> None:
        """Let every engine read the target; no engine may see other rows without standing in WRONG.

        source, target: how Spark calls the tables. where: the folder of a Delta table, the metadata file of an Iceberg one.
        """
        wanted = self.query(f"SELECT * FROM {source}")
        text = self.difference(self.query(f"SELECT * FROM {target}"), wanted, signed_zero=True)
        assert not text, f"Spark {version('pyspark')} reads {where}: {text}"
        assert shape(self.spark, target) == shape(self.spark, source)
        self._note(script, to, "Spark", "equal")
        unexpected = []
        for engine, reader in READERS[to].items():
            known = WRONG.get((to, script.stem, engine), "")
            got = self.independent.read(reader, where)
            text = "" if isinstance(got, str) else self.difference(got, wanted)
            if isinstance(got, str):
                self._note(script, to, engine, "stops", without_places(got.split(": ", 1)[-1]))
            else:
                self._note(script, to, engine, "wrong" if text else "equal", known)
                if text and not known:
                    unexpected.append(f"{engine} {version(PACKAGES[engine])} reads {where}: {text}")
                if known and not text:
                    unexpected.append(f"{engine} reads {where} right: take it out of WRONG")
        assert not unexpected, "; ".join(unexpected)

    def _note(self, script: Path, to: str, engine: str, result: str, evidence: str = "") -> None:
        reading = Reading(
            to=to, table=script.stem, about=about(script), engine=engine, result=result, evidence=evidence
        )
        self.readings.append(reading)


@pytest.fixture
def judges(spark: Any, query: Any, independent: Any, difference: Any, readings: list[Reading]) -> Judges:
    return Judges(spark=spark, query=query, independent=independent, difference=difference, readings=readings)


def test_an_iceberg_target_equals_its_delta_source(
    delta_script: Path, delta_table: Any, warehouse: Path, judges: Judges
) -> None:
    source = delta_table(delta_script)
    target = warehouse / "converted" / source.name
    if source.refused:
        with pytest.raises(deltaberg.Unsupported, match=source.refused):
            deltaberg.convert(source.folder, to="iceberg", target=target)
        assert not target.exists()
        judges.refused(delta_script, "iceberg")
        return
    result = deltaberg.convert(source.folder, to="iceberg", target=target)
    assert result.rows == judges.query(f"SELECT * FROM {source.sql}").num_rows
    judges.read(delta_script, "iceberg", source.sql, f"ice.converted.{source.name}", Path(result.target_metadata))


def test_a_delta_target_equals_its_iceberg_source(
    iceberg_script: Path, iceberg_table: Any, tmp_path: Path, judges: Judges
) -> None:
    source = iceberg_table(iceberg_script)
    target = tmp_path / source.name
    if source.refused:
        with pytest.raises(deltaberg.Unsupported, match=source.refused):
            deltaberg.convert(source.folder, to="delta", target=target)
        assert not target.exists()
        judges.refused(iceberg_script, "delta")
        return
    result = deltaberg.convert(source.folder, to="delta", target=target)
    assert result.rows == judges.query(f"SELECT * FROM {source.sql}").num_rows
    judges.read(iceberg_script, "delta", source.sql, f"delta.`{target}`", target)


def page(readings: list[Reading], connectors: str) -> str:
    """docs/compatibility.md."""
    versions = ", ".join(f"{name} {version(package)}" for name, package in PACKAGES.items())
    lines = [
        "# Which engine reads what deltaberg writes",
        "",
        "Made from a run of the tests (`tests/engines/test_conversions.py`), which fail when this page says anything else. Each",
        "line is a table that Spark wrote, converted by deltaberg and read again; the rows must equal the source's.",
        "",
        f"Versions: {versions}; Spark with {connectors}.",
        "",
        "DataFusion and Polars take the log of a Delta table from delta-rs, Polars the metadata of an Iceberg table from PyIceberg.",
        "",
        "**equal**: every row. **refused**: deltaberg refuses the conversion as long as no option chooses what to do; see",
        "[codes.md](codes.md). **stops**: the engine says that it cannot read such a table. **wrong**: the engine gives other rows",
        "than Spark; the note says which.",
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
