"""Both formats answer every question of ``TableReader``, and about a table and its conversion they answer alike."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.migrate.convert import convert
from deltaberg.migrate.formats.delta.reader import DeltaReader
from deltaberg.migrate.formats.iceberg.reader import IcebergReader
from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.formats.table_reader import TableReader
from deltaberg.migrate.target.watermark import watermark_of
from deltaberg.migrate.verify.tables import ChosenOptions

ROWS = pa.table(
    {
        "id": pa.array(range(6), pa.int64()),
        "day": pa.array([dt.date(2024, 1, 1 + n % 2) for n in range(6)], pa.date32()),
        "text": pa.array(["a", None, "b", "c", None, "d"]),
    }
)


@pytest.fixture
def readers(tmp_path: Path, write_delta: Any, delete_from_delta: Any, opened: Any) -> tuple[TableReader, TableReader]:
    """Of a Delta table of two files, one row of which is deleted, and of the Iceberg table that is made from it."""
    folder = write_delta(ROWS, partition_by=["day"])
    delete_from_delta(folder, {0: [1]})
    done = convert(opened(folder), to="iceberg", target=str(tmp_path / "iceberg"))
    return reader_of(opened(folder)), reader_of(opened(done.target))


def test_each_format_has_its_reader(readers: tuple[TableReader, TableReader]) -> None:
    assert [type(each) for each in readers] == [DeltaReader, IcebergReader]


def test_both_say_the_same_of_columns_and_files(readers: tuple[TableReader, TableReader]) -> None:
    options = ChosenOptions(type_mappings={}, partition_timezone="UTC")
    delta, iceberg = readers
    left, right = delta.column_facts(options), iceberg.column_facts(options)
    assert {path: (each.name, each.type, each.required) for path, each in left.items()} == {
        path: (each.name, each.type, each.required) for path, each in right.items()
    }
    # This Delta table has no ids of its own; every Iceberg table has.
    assert {each.field_id for each in left.values()} == {None}
    assert None not in {each.field_id for each in right.values()}
    counts = [
        sorted((row["rows"], row["deleted"]) for batch in each.file_counts() for row in batch.to_pylist())
        for each in readers
    ]
    assert counts == [[(3, 0), (3, 1)]] * 2
    files = [{row["location"] for batch in each.file_counts() for row in batch.to_pylist()} for each in readers]
    assert files[0] == files[1]
    assert [each.stated_files() for each in readers] == [2, 2]
    # Two data files, and what holds the deletion vector.
    assert [sum(len(places) for places in each.listed_locations()) for each in readers] == [3, 3]
    assert [each.derived_columns() for each in readers] == [frozenset()] * 2


def test_rows_are_the_same_whole_file_by_file_and_as_scanned(readers: tuple[TableReader, TableReader]) -> None:
    options = ChosenOptions(type_mappings={}, partition_timezone="UTC")
    names = ["id", "text"]
    seen = []
    for each in readers:
        whole = [row for batch in each.rows(names, options) for row in batch.to_pylist()]
        reader, by_file = each.file_rows(names, options), []
        for files in each.listed_files():
            assert len(each.file_locations(files)) == files.num_rows
            places = []
            for place, batch in reader.of(files):
                places.append(place)
                by_file += batch.to_pylist()
            assert sorted(set(places)) == list(range(files.num_rows))
        scanned = [row for batch in each.scan(names).batches() for row in batch.to_pylist()]
        key = str
        assert sorted(whole, key=key) == sorted(by_file, key=key) == sorted(scanned, key=key)
        seen.append(sorted(row["id"] for row in whole))
    assert seen[0] == seen[1]
    assert len(seen[0]) == ROWS.num_rows - 1


def test_the_newest_commit_of_the_target_names_that_of_the_source(
    readers: tuple[TableReader, TableReader],
) -> None:
    delta, iceberg = (list(each.history(limit=None)) for each in readers)
    assert [each.version for each in delta] == [1, 0]
    assert [each.other_version for each in iceberg] == [1]
    assert [entries[0].current for entries in (delta, iceberg)] == [True, True]


def test_a_source_names_its_state_as_its_watermark_does(
    readers: tuple[TableReader, TableReader],
) -> None:
    for each in readers:
        assert isinstance(each, (DeltaReader, IcebergReader))
        assert each.source.version == watermark_of(each.source).version == each.inspect().version


def test_bounds_stand_beside_the_values(readers: tuple[TableReader, TableReader]) -> None:
    for each in readers:
        files = 0
        for stated, values in each.stated_bounds():
            files += 1
            ids = next(one for one in stated if one.column == ("id",))
            held = values[("id",)]
            assert (ids.lower.as_py(), ids.upper.as_py()) == (held.lower.as_py(), held.upper.as_py())
        assert files == 2


def test_no_verb_that_reads_asks_a_table_for_its_format() -> None:
    """What differs between the formats stands in ``migrate/formats``, where the next format would be added."""
    root = Path(__file__).resolve().parents[3]
    single = ("migrate/inspection.py", "migrate/history.py", "migrate/table_ref.py", "migrate/target/file_count.py")
    verbs = [
        *(root / "deltaberg").glob("*.py"),
        *(root / "migrate" / "verify").glob("*.py"),
        *map(root.joinpath, single),
    ]
    asking = [
        each.name for each in verbs if {"IcebergSource", "DeltaSource"} & set(re.findall(r"\w+", each.read_text()))
    ]
    assert not asking
