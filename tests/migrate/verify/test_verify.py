"""verify names what differs, whatever was done to a target; and the command exits with 4."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.live_files import data_files, delete_files
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, UuidType
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import convert
from deltaberg.migrate.verify.verify import VerifyReport, verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def delta_source(tmp_path: Path, write_delta: Any, delete_from_delta: Any) -> Path:
    """Two files of three rows, one row of the first deleted."""
    folder = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", None, "c"]}), tmp_path / "first")
    write_delta(pa.table({"id": [4, 5, 6], "s": ["d", "e", "f"]}), folder)
    delete_from_delta(folder, {0: [1]})
    return Path(folder)


@pytest.fixture
def iceberg_target(delta_source: Path, opened: Any) -> str:
    """Its Iceberg side, of version 2."""
    return convert(opened(delta_source), to="iceberg", options=ConvertOptions(format_version=2)).target


@pytest.fixture
def delta_target(tmp_path: Path, iceberg_target: str, opened: Any) -> Path:
    """The Delta table that is made from the Iceberg side."""
    return Path(convert(opened(iceberg_target), to="delta", target=str(tmp_path / "delta")).target)


def change_adds(folder: Path, change: Change) -> None:
    """Edit the first add action of a log's first commit."""
    log = folder / "_delta_log"
    file = log / f"{0:020d}.json"
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    change(next(line["add"] for line in lines if "add" in line))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    for checksum in log.glob("*.crc"):
        checksum.unlink()


def change_stats(change: Change) -> Change:
    def edit(add: dict[str, Any]) -> None:
        stats = json.loads(add["stats"])
        change(stats)
        add["stats"] = json.dumps(stats)

    return edit


def failed(report: VerifyReport) -> dict[str, tuple[str, ...]]:
    """Differences by check, of those that are not equal."""
    return {check.name: check.differences for check in report.checks if not check.equal}


def test_what_was_converted_is_equal(delta_source: Path, iceberg_target: str, delta_target: Path, command: Any) -> None:
    for source, target in (
        (delta_source, iceberg_target),
        (iceberg_target, delta_target),
        (delta_source, delta_target),
    ):
        outcome = command("verify", source, target, "--rows", "--bounds", "--json")
        assert outcome.code == 0, outcome.out
        assert outcome.document["equal"] is True
        compared = {check["name"]: check["compared"] for check in outcome.document["checks"]}
        assert compared["files"] == 2
        assert compared["rows"] == compared["rows in all"] == 5
        assert compared["bounds"] == 4


def test_a_changed_row(tmp_path: Path, write_iceberg_file: Any, opened: Any, command: Any) -> None:
    """In a file of the target's own, which nothing but its content can tell from what it should be."""
    fields = (
        NestedField(field_id=1, name="id", required=False, type=LongType()),
        NestedField(field_id=2, name="u", required=False, type=UuidType()),
    )
    schema, root = Schema(schema_id=0, fields=fields), str(tmp_path / "iceberg")
    rows = pa.table({"id": [1, 2], "u": pa.array([b"0" * 16, None], pa.binary(16))})
    with create_table(open_storage(), root, schema=schema) as transaction:
        transaction.snapshot("append").add_files([write_iceberg_file(root, schema, rows, UNPARTITIONED)], 0)
        transaction.commit()
    options = ConvertOptions(type_mappings={"uuid": "string"})
    done = convert(opened(root), to="delta", target=str(tmp_path / "delta"), options=options)
    assert verify(opened(root), opened(done.target), rows=True).equal
    (file,) = (tmp_path / "delta" / "_deltaberg").rglob("*.parquet")
    written = pq.read_table(file)
    changed = written.set_column(0, written.schema.field(0), pa.array([1, 7], pa.int64()))
    pq.write_table(changed, file)
    change_adds(tmp_path / "delta", lambda add: add.update(size=file.stat().st_size))
    assert verify(opened(root), opened(done.target)).equal
    differences = failed(verify(opened(root), opened(done.target), rows=True))
    assert differences == {
        "rows": (
            "the values of id differ",
            "only in the source: {'id': 2, 'u': None}",
            "only in the target: {'id': 7, 'u': None}",
        )
    }
    outcome = command("verify", root, done.target, "--rows")
    assert outcome.code == 4
    assert "differ in rows: the values of id differ" in outcome.err
    (line,) = failed(verify(opened(root), opened(done.target), bounds=True))["bounds"]
    assert "holds 7, above its upper bound 2" in line


def test_a_missing_file(delta_source: Path, iceberg_target: str, opened: Any, command: Any) -> None:
    table = Table.open(iceberg_target, open_storage())
    (batch,) = data_files(table, table.metadata.current_snapshot)
    with table.transaction() as transaction:
        transaction.snapshot("delete").delete_files(batch.slice(0, 1))
        transaction.commit()
    gone = batch.column("file_path")[0].as_py()
    differences = failed(verify(opened(delta_source), opened(iceberg_target), rows=True))
    assert differences["files"] == (f"file {gone} is in the source only",)
    assert len(differences["rows in all"]) == 1
    assert {"files", "rows in all", "rows"} <= set(differences)
    outcome = command("verify", delta_source, iceberg_target, "--json")
    assert outcome.code == 4
    assert outcome.document["equal"] is False
    assert f"file {gone} is in the source only" in outcome.err


@pytest.mark.parametrize(
    "kind",
    [
        "data",
        "vectors of the source",
        "position deletes of the target",
        "Puffin file of the target",
        "file of the target",
    ],
)
def test_a_listed_file_that_is_gone(kind: str, delta_source: Path, opened: Any, command: Any) -> None:
    """It is noticed without the rows; and nothing that needs the file ends in another error."""
    version = 2 if kind.startswith("position") else 3
    target = Path(convert(opened(delta_source), to="iceberg", options=ConvertOptions(format_version=version)).target)
    pair, listing = (delta_source, target), "the target lists"
    match kind:
        case "data":
            gone, listing = sorted(delta_source.glob("*.parquet"))[0], "the source and the target list"
        case "vectors of the source":
            (gone,), listing = delta_source.glob("deletion_vector_*.bin"), "the source lists"
        case "position deletes of the target":
            (gone,) = target.rglob("*deletes*.parquet")
        case "Puffin file of the target":
            (gone,) = target.rglob("*.puffin")
        case _:
            pair = (target, delta_source.parent / "delta")
            convert(opened(target), to="delta", target=str(pair[1]))
            (gone,) = (pair[1] / "_deltaberg").rglob("*.bin")
    assert command("verify", *pair, "--rows").code == 0
    gone.unlink()
    said = f"file {gone} is missing, which {listing}"
    for options in ((), ("--rows", "--bounds")):
        outcome = command("verify", *pair, "--json", *options)
        assert outcome.code == 4
        assert len(outcome.err.splitlines()) == 1
        assert said in outcome.err
        checks = {check["name"]: check for check in outcome.document["checks"]}
        assert checks["presence of files"]["differences"] == [said]
        for unread in ("rows", "bounds") if options else ():
            assert checks[unread]["equal"] is False
            assert checks[unread]["differences"] == ["not compared, since files are missing"]


def test_many_files_that_are_gone_are_counted(tmp_path: Path, write_delta: Any, opened: Any) -> None:
    for each in range(9):
        write_delta(pa.table({"id": [each]}), tmp_path / "t")
    target = convert(opened(tmp_path / "t"), to="iceberg").target
    compared = next(
        check for check in verify(opened(tmp_path / "t"), opened(target)).checks if "presence" in check.name
    )
    assert (compared.equal, compared.compared) == (True, 9)
    files = sorted((tmp_path / "t").glob("*.parquet"))
    for file in files[1:]:
        file.unlink()
    lines = failed(verify(opened(tmp_path / "t"), opened(target)))["presence of files"]
    assert len(lines) == 6
    assert lines[-1] == "and 3 more"
    assert {line.split()[1] for line in lines[:-1]} < {str(file) for file in files[1:]}


def test_of_each_side_some_files_are_named_and_the_rest_is_counted(
    tmp_path: Path, write_delta: Any, write_iceberg_file: Any, opened: Any
) -> None:
    for each in range(9):
        write_delta(pa.table({"id": [each]}), tmp_path / "t")
    target = convert(opened(tmp_path / "t"), to="iceberg").target
    table = Table.open(target, open_storage())
    snapshot = table.metadata.current_snapshot
    gone = pa.Table.from_batches(list(data_files(table, snapshot))).combine_chunks().to_batches()[0].slice(0, 8)
    new = [
        write_iceberg_file(str(tmp_path / f"e{each}"), table.metadata.schema, pa.table({"id": [each]}), UNPARTITIONED)
        for each in range(6)
    ]
    with table.transaction() as transaction:
        transaction.snapshot("overwrite").delete_files(gone)
        for entry in new:
            transaction.snapshot("append").add_files(entry, 0)
        transaction.commit()
    lines = failed(verify(opened(tmp_path / "t"), opened(target)))["files"]
    assert [line.partition(" is in the ")[2] for line in lines[:5]] == ["source only"] * 3 + ["target only"] * 2
    assert lines[5:] == ("and 9 more",)


def test_a_file_too_many(
    tmp_path: Path, delta_source: Path, iceberg_target: str, write_iceberg_file: Any, opened: Any, command: Any
) -> None:
    table = Table.open(iceberg_target, open_storage())
    rows = pa.table({"id": [9], "s": ["z"]})
    entry = write_iceberg_file(str(tmp_path / "elsewhere"), table.metadata.schema, rows, UNPARTITIONED)
    with table.transaction() as transaction:
        transaction.snapshot("append").add_files(entry, 0)
        transaction.commit()
    differences = failed(verify(opened(delta_source), opened(iceberg_target)))
    assert differences["files"] == (f"file {entry.column('file_path')[0].as_py()} is in the target only",)
    assert differences["rows in all"] == ("5 rows in the source and 6 in the target",)
    assert command("verify", delta_source, iceberg_target).code == 4


def test_another_row_count(iceberg_target: str, delta_target: Path, opened: Any, command: Any) -> None:
    change_adds(delta_target, change_stats(lambda stats: stats.update(numRecords=4)))
    differences = failed(verify(opened(iceberg_target), opened(delta_target)))
    (line,) = differences["row counts of files"]
    assert line.endswith(": 3 in the source and 4 in the target")
    assert differences["rows in all"] == ("5 rows in the source and 6 in the target",)
    assert command("verify", iceberg_target, delta_target).code == 4


def test_a_lost_delete_in_delta(iceberg_target: str, delta_target: Path, opened: Any, command: Any) -> None:
    lines = (delta_target / "_delta_log" / f"{0:020d}.json").read_text(encoding="utf-8").splitlines()
    adds = [json.loads(line)["add"] for line in lines if "add" in json.loads(line)]
    assert sum("deletionVector" in add and add["deletionVector"] is not None for add in adds) == 1
    kept = [line.replace('"deletionVector"', '"was"') for line in lines]
    (delta_target / "_delta_log" / f"{0:020d}.json").write_text("\n".join(kept) + "\n", encoding="utf-8")
    for checksum in (delta_target / "_delta_log").glob("*.crc"):
        checksum.unlink()
    differences = failed(verify(opened(iceberg_target), opened(delta_target), rows=True))
    (line,) = differences["deleted rows of files"]
    assert line.endswith(": 1 in the source and 0 in the target")
    assert differences["rows in all"] == ("5 rows in the source and 6 in the target",)
    assert "5 rows in the source and 6 in the target" in differences["rows"]
    assert any(text.startswith("only in the target: {'id': ") for text in differences["rows"])
    assert command("verify", iceberg_target, delta_target).code == 4


def test_a_lost_delete_in_iceberg(delta_source: Path, iceberg_target: str, opened: Any, command: Any) -> None:
    table = Table.open(iceberg_target, open_storage())
    (batch,) = delete_files(table, table.metadata.current_snapshot)
    with table.transaction() as transaction:
        transaction.snapshot("delete").delete_files(batch)
        transaction.commit()
    differences = failed(verify(opened(delta_source), opened(iceberg_target)))
    (line,) = differences["deleted rows of files"]
    assert line.endswith(": 1 in the source and 0 in the target")
    assert command("verify", delta_source, iceberg_target).code == 4


def test_other_positions_of_as_many_deletes(
    delta_source: Path, iceberg_target: str, delete_from_iceberg: Any, opened: Any
) -> None:
    """Only the rows can tell."""
    table = Table.open(iceberg_target, open_storage())
    (batch,) = delete_files(table, table.metadata.current_snapshot)
    file = Path(batch.column("file_path")[0].as_py())
    deletes = pq.read_table(file)
    pq.write_table(deletes.set_column(1, deletes.schema.field(1), pc.add(deletes["pos"], 1)), file)
    assert verify(opened(delta_source), opened(iceberg_target)).equal
    differences = failed(verify(opened(delta_source), opened(iceberg_target), rows=True))
    assert list(differences) == ["rows"]


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("minValues", 3, "holds .*, below its lower bound 3"),
        ("maxValues", 2, "holds .*, above its upper bound 2"),
    ],
)
def test_a_wrong_bound(
    iceberg_target: str, delta_target: Path, opened: Any, command: Any, member: str, value: int, words: str
) -> None:
    name = opened(delta_target).snapshot.column_mapping.physical_schema.fields[0].name
    # The file of the rows 1 to 3 or that of 4 to 6: whichever it is, one of both bounds is wrong for it.
    value = value if member == "maxValues" else value + 3
    change_adds(delta_target, change_stats(lambda stats: stats[member].update({name: value})))
    assert verify(opened(iceberg_target), opened(delta_target)).equal
    differences = failed(verify(opened(iceberg_target), opened(delta_target), bounds=True))
    assert list(differences) == ["bounds"]
    assert re.search(words.replace("bound 3", f"bound {value}"), differences["bounds"][0]), differences
    outcome = command("verify", iceberg_target, delta_target, "--bounds")
    assert outcome.code == 4
    assert "differ in bounds: id of " in outcome.err


def test_a_wrong_null_count(iceberg_target: str, delta_target: Path, opened: Any) -> None:
    name = opened(delta_target).snapshot.column_mapping.physical_schema.fields[1].name
    change_adds(
        delta_target, change_stats(lambda stats: (stats.update(tightBounds=True), stats["nullCount"].update({name: 2})))
    )
    (line,) = failed(verify(opened(iceberg_target), opened(delta_target), bounds=True))["bounds"]
    assert line.endswith("(the metadata say 2)")


def test_another_schema(delta_source: Path, iceberg_target: str, opened: Any, command: Any) -> None:
    table = Table.open(iceberg_target, open_storage())
    with table.transaction() as transaction:
        transaction.update_schema(lambda change: change.rename_column("s", "t"))
        transaction.commit()
    differences = failed(verify(opened(delta_source), opened(iceberg_target)))
    assert differences == {"schema": ("column s is in the source only", "column t is in the target only")}
    outcome = command("verify", delta_source, iceberg_target)
    assert outcome.code == 4
    assert "differ in schema: column s is in the source only" in outcome.err
