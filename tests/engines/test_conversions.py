"""Spark reads every conversion of the tables that it made: the rows, the schema, the nullability. So do other engines, and
docs/compatibility.md is what this run saw; docs/compatibility-spark-3.5.md what a run with that generation saw.

``DELTABERG_WRITE_DOCS=1 make test-engines`` writes the page; otherwise it is compared with the run, so that it can neither
promise more nor less than what is so. A wrong row is never accepted as a limitation unless it stands in WRONG with its evidence.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaberg

DOCS = Path(__file__).resolve().parents[2] / "docs"
OTHER_PAGES = sorted(DOCS.glob("compatibility-*.md"))
WHOLE_CORPUS = Path(__file__).parent / "whole_corpus.json"
CATALOGUE = Path(__file__).resolve().parents[1] / "exceptions.json"

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


# What a generation's Spark says that it cannot read, by (generation, target format, table), with words of its message.
STOPS = {("spark-3.5", "delta", "evolution"): "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_PREVIEW"}


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
    generation: Any
    query: Callable[[str], pa.Table]
    independent: Any
    difference: Callable[..., str]
    readings: list[Reading]

    def without_source(self, script: Path, to: str, words: str) -> None:
        for engine in ("Spark", *READERS[to]):
            self._note(script, to, engine, "not made", words)

    def refused(self, script: Path, to: str) -> None:
        for engine in ("Spark", *READERS[to]):
            self._note(script, to, engine, "refused")

    def read(self, script: Path, to: str, source: str, target: str, where: Path) -> None:
        """Let every engine read the target; no engine may see other rows without standing in WRONG.

        source, target: how Spark calls the tables. where: the folder of a Delta table, the metadata file of an Iceberg one.
        """
        stops = STOPS.get((self.generation.name, to, script.stem))
        if stops is not None:
            with pytest.raises(AssertionError, match=stops):
                self.query(f"SELECT * FROM {target}")
            self._note(script, to, "Spark", "stops", stops)
            return
        wanted = self.query(f"SELECT * FROM {source}")
        text = self.difference(self.query(f"SELECT * FROM {target}"), wanted, signed_zero=True)
        assert not text, f"{self.generation} reads {target} ({where}) differently: {text}"
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
def judges(
    spark: Any, generation: Any, query: Any, independent: Any, difference: Any, readings: list[Reading]
) -> Judges:
    return Judges(
        spark=spark,
        generation=generation,
        query=query,
        independent=independent,
        difference=difference,
        readings=readings,
    )


def test_an_iceberg_target_equals_its_delta_source(
    delta_script: Path, delta_table: Any, warehouse: Path, judges: Judges
) -> None:
    source = delta_table(delta_script)
    if source.not_made:
        judges.without_source(delta_script, "iceberg", source.not_made)
        return
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
    if source.not_made:
        judges.without_source(iceberg_script, "delta", source.not_made)
        return
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


def test_maps_of_delta_rs_equal_their_source(
    warehouse: Path, generation: Any, generations: Any, tmp_path: Path, judges: Judges
) -> None:
    """A table that no Spark can make: the repeated group of a map is called ``entries``."""
    deltalake = pytest.importorskip("deltalake")
    if generation != generations[0]:
        pytest.skip("DuckDB is what differs, and it reads with the first generation")
    script = tmp_path / "maps_of_delta_rs.sql"
    script.write_text("-- Maps as delta-rs writes them, in a group called entries\n", encoding="utf-8")
    folder = tmp_path / "maps"
    maps = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64()))
    deltalake.write_deltalake(str(folder), pa.table({"id": [1, 2, 3], "m": maps}))
    result = deltaberg.convert(folder, to="iceberg", target=warehouse / "converted" / "maps_of_delta_rs")
    assert "map-group-names" in {item.code for item in result.plan.items}
    place = Path(result.target_metadata)
    judges.read(script, "iceberg", f"delta.`{folder}`", "ice.converted.maps_of_delta_rs", place)
    (duck,) = (each for each in judges.readings if (each.table, each.engine) == (script.stem, "DuckDB"))
    assert duck.result == "stops", "DuckDB reads them: take the warning back"


# What no table can show: how writes and cleaners get on, which the other tests of tests/engines hold to.
WRITES = """
## Writing on a target

Spark appends, deletes, updates and merges on targets of both directions (copy on write, merge on read, with and without
deletion vectors), compacts them (`rewrite_data_files`, `rewrite_manifests`, `rewrite_position_delete_files`, OPTIMIZE, REORG)
and evolves their schema (columns added, renamed, dropped, widened and reordered, nested ones too); streams append to them
(`test_streams.py`). deltaberg reads each result exactly, the source does not change, and on Delta targets DuckDB and
delta-rs read the same rows (`test_write_on_top.py`). Files outside a Delta target's folder are listed by a path that begins
with `../`. An absolute path would be read, too, but Spark spells it differently when it removes the file, so that delta-rs 1.6.6 and
DuckDB 1.5.5 read the removed rows and the new ones, and its DELETE, UPDATE and MERGE with deletion vectors fail on it. Therefore
a Delta target outside its source's folder must not be moved alone, nor opened through a symbolic link that stands elsewhere.
In a bucket it is the same (`tests/migrate/test_object_stores.py`, `test_places.py`). Files in another bucket than the Delta target can only have
an absolute path: such a table stops delta-rs 1.6.6 (no object store for the other bucket) and DuckDB 1.5.5 (HTTP 404).
`plan --target` and `convert` warn of it (`files-in-another-bucket`).

## Cleaners

VACUUM, `expire_snapshots`, `remove_orphan_files` and the clean-up of the log, in every order, on the source and on the target,
leave both tables whole, because a target carries guards. What breaks a table all the same, and what finds it, has
[a page of its own](cleaners.md).
"""


def corpus_section(generation: Any) -> list[str]:
    """The counts of the last run over the whole corpus, and the catalogue's exceptions."""
    counts = json.loads(WHOLE_CORPUS.read_text(encoding="utf-8")).get(generation.name)
    tables = json.loads(CATALOGUE.read_text(encoding="utf-8"))["tables"]
    listed = {name: judged[generation.name] for name, judged in tables.items() if generation.name in judged}
    known = ["", *(f"- `{name}`, {each['outcome']}: {each['because']}" for name, each in sorted(listed.items()))]
    if counts is None:
        selection = "Of the selection that covers every feature (`test_corpus.py`), all tables are equal but for these:"
        return ["", "## The corpus", "", selection, *known]
    lines = [
        "",
        "## The corpus",
        "",
        "Tables that other projects and Spark wrote, one feature each, converted and read by Spark (`test_corpus.py`). CI reads a",
        f"selection that covers every feature; these are the counts of the last run over all of them, by {counts['engine']}.",
        "",
        "| direction | equal | Spark cannot read | other rows |",
        "|---|---|---|---|",
    ]
    for to, title in (("iceberg", "Delta Lake to Iceberg"), ("delta", "Iceberg to Delta Lake")):
        found = counts.get(to, {})
        lines.append(f"| {title} | {found.get('equal', 0)} | {found.get('unread', 0)} | {found.get('wrong', 0)} |")
    return lines + known


def limits_section(generation: Any, limits: Mapping[str, str]) -> list[str]:
    """What the other tests saw this generation's Spark stop at, and how it was set."""
    lines = ["", "## What this Spark cannot do", "", "Each is a test that sees it stop with these words.", ""]
    lines += [f"- {what}: `{words}`" for what, words in sorted(limits.items())]
    if generation.conf:
        lines += ["", "It ran with settings that it asks its user to choose, and that later ones have:", ""]
        lines += [f"- `{key}={value}`" for key, value in generation.conf.items()]
    return lines


def page(readings: list[Reading], generation: Any, limits: Mapping[str, str], *, first: bool) -> str:
    """docs/compatibility.md, or the page of another generation, which is about Spark alone."""
    versions = ", ".join(f"{name} {version(package)}" for name, package in PACKAGES.items() if first or name == "Spark")
    connectors = str(generation).partition(" with ")[2]
    lines = [
        "# Which engine reads what deltaberg writes" + ("" if first else f": {generation.name}"),
        "",
        "Made from a run of the tests (`tests/engines/test_conversions.py`), which fail when this page says anything else. Each",
        f"line is a table that Spark{', or delta-rs where it says so,' if first else ''} wrote, converted by deltaberg and read "
        "again; the rows must equal the source's.",
        "",
        f"Versions: {versions}; Spark with {connectors}.",
        "",
    ]
    if first:
        lines += [
            "DataFusion and Polars take the log of a Delta table from delta-rs, Polars the metadata of an Iceberg table from PyIceberg.",
            *(
                f"{each.stem.removeprefix('compatibility-')} has [a page of its own]({each.name})."
                for each in OTHER_PAGES
            ),
            "",
        ]
    lines += [
        "**equal**: every row. **refused**: deltaberg refuses the conversion as long as no option chooses what to do; see",
        "[codes.md](codes.md). **stops**: the engine says that it cannot read such a table. **wrong**: the engine gives other rows",
        "than Spark; the note says which." + ("" if first else " **not made**: this Spark cannot make the table."),
    ]
    for to, title in (("iceberg", "Delta Lake to Iceberg"), ("delta", "Iceberg to Delta Lake")):
        engines = ["Spark", *(READERS[to] if first else ())]
        lines += [
            "",
            f"## {title}",
            "",
            f"| table | about | {' | '.join(engines)} |",
            "|---|---|" + "---|" * len(engines),
        ]
        tables: dict[tuple[str, str], dict[str, str]] = {}
        notes: list[str] = []
        for reading in readings:
            if reading.to == to and reading.engine in engines:
                mark = reading.result
                if reading.evidence:
                    note = f"{reading.engine}, `{reading.table}`: {reading.evidence}"
                    notes.append(note)
                    mark += f" [{len(notes)}]"
                tables.setdefault((reading.table, reading.about), {})[reading.engine] = mark
        for (table, what), results in tables.items():
            lines.append(f"| `{table}` | {what} | {' | '.join(results[engine] for engine in engines)} |")
        if notes:
            lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    lines += corpus_section(generation)
    if limits or generation.conf:
        lines += limits_section(generation, limits)
    return "\n".join(lines) + "\n" + (WRITES if first else "")


def test_the_page_is_what_this_run_saw(
    readings: list[Reading], generation: Any, generations: Any, limits: Mapping[str, str]
) -> None:
    scripts = list((Path(__file__).parent / "sources").glob("*/*.sql"))
    other = {"delta": "iceberg", "iceberg": "delta"}
    if not {(other[each.parent.name], each.stem) for each in scripts} <= {(each.to, each.table) for each in readings}:
        pytest.skip("only a part of the tables was read")
    first = generation == generations[0]
    text = page(readings, generation, limits, first=first)
    file = DOCS / ("compatibility.md" if first else f"compatibility-{generation.name}.md")
    if os.environ.get("DELTABERG_WRITE_DOCS"):
        file.write_text(text, encoding="utf-8")
    versions = next(line for line in text.splitlines() if line.startswith("Versions: "))
    if versions not in file.read_text(encoding="utf-8"):
        pytest.skip("the page was made with other versions of the engines")
    assert file.read_text(encoding="utf-8") == text, "run: DELTABERG_WRITE_DOCS=1 make test-engines"
