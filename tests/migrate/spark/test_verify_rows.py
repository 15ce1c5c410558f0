"""The rows of two tables compared in tasks: the same report as in this process, whatever differs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltaberg.datafile.errors import DataFileError
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import DoubleType, LongType, NestedField, StringType, UuidType
from deltaberg.migrate.convert import convert
from deltaberg.migrate.spark import verify_rows
from deltaberg.migrate.spark.tasks import SparkWork
from deltaberg.migrate.spark.verify_rows import spark_rows_check
from deltaberg.migrate.verify.row_hash import HashKey
from deltaberg.migrate.verify.tables import ChosenOptions
from deltaberg.migrate.verify.verify import VerifyReport, verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

ID = NestedField(field_id=1, name="id", required=False, type=LongType())
NUMBER = NestedField(field_id=2, name="x", required=False, type=DoubleType())
TEXT = NestedField(field_id=3, name="s", required=False, type=StringType())
NAN, OTHER_NAN = (float(np.array(bits, np.uint64).view(np.float64)) for bits in (0x7FF8 << 48, 0xFFF8 << 48 | 5))


@pytest.fixture
def in_tasks(monkeypatch: pytest.MonkeyPatch, in_this_process: Any) -> Any:
    """Tasks of two files, two tasks at a time."""
    monkeypatch.setattr(verify_rows, "parallelism", lambda _: 1)
    monkeypatch.setattr(verify_rows, "TASK_FILES", 2)
    monkeypatch.setattr(verify_rows, "_WAVE_TASKS", 4)
    return in_this_process


@pytest.fixture
def pair(tmp_path: Path, write_iceberg_file: Any, write_delta: Any, opened: Any) -> Callable[..., tuple[Any, Any]]:
    """``pair(left, right)``: an Iceberg table and a Delta table that share nothing, of one file for each piece of rows."""

    def make(left: list[pa.Table], right: list[pa.Table], fields: Sequence[NestedField] = (ID, NUMBER, TEXT)) -> Any:
        schema, root = Schema(schema_id=0, fields=tuple(fields)), str(tmp_path / "iceberg")
        with create_table(open_storage(), root, schema=schema) as transaction:
            files = [write_iceberg_file(root, schema, rows, UNPARTITIONED) for rows in left]
            transaction.snapshot("append").add_files(files, 0)
            transaction.commit()
        for rows in right:
            write_delta(rows, tmp_path / "delta")
        return opened(root), opened(tmp_path / "delta")

    return make


def rows(*values: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*values, strict=True))
    return pa.table(
        {
            "id": pa.array(columns[0], pa.int64()),
            "x": pa.array(columns[1], pa.float64()),
            "s": pa.array(columns[2], pa.string()),
        }
    )


def both(source: Any, target: Any, work: Any) -> VerifyReport:
    """The report of tasks, which must be that of this process."""
    usual = verify(source, target, rows=True)
    found = verify(source, target, rows=True, compare_rows=spark_rows_check(work))
    assert found.to_json() == usual.to_json()
    return found


def row_differences(report: VerifyReport) -> tuple[str, ...]:
    (check,) = [check for check in report.checks if check.name == "rows"]
    return check.differences


MANY = [rows((n, n / 2, f"t{n}"), (n, None, None)) for n in range(5)]
CASES = {
    "the same in another order": (MANY, MANY[::-1], ()),
    "nothing at all": ([rows((1, None, None)).slice(0, 0)], [rows((1, None, None)).slice(0, 0)], ()),
    "one value": (
        MANY,
        [*MANY[:4], rows((4, 2.5, "t4"), (4, None, None))],
        (
            "the values of x differ",
            "only in the source: {'id': 4, 's': 't4', 'x': 2.0}",
            "only in the target: {'id': 4, 's': 't4', 'x': 2.5}",
        ),
    ),
    "a row twice and another not at all": (
        [rows((1, 1.0, "a"), (2, 2.0, "b"), (3, 3.0, "c"))],
        [rows((1, 1.0, "a"), (1, 1.0, "a"), (3, 3.0, "c"))],
        (
            "the values of id, s, x differ",
            "only in the source: {'id': 2, 's': 'b', 'x': 2.0}",
            "only in the target: {'id': 1, 's': 'a', 'x': 1.0}",
            "only in the target: {'id': 1, 's': 'a', 'x': 1.0}",
        ),
    ),
    "values that change places": (
        [rows((1, 1.0, "a"), (2, 2.0, "b"))],
        [rows((1, 1.0, "b"), (2, 2.0, "a"))],
        (
            "only in the source: {'id': 1, 's': 'a', 'x': 1.0}",
            "only in the source: {'id': 2, 's': 'b', 'x': 2.0}",
            "only in the target: {'id': 1, 's': 'b', 'x': 1.0}",
            "only in the target: {'id': 2, 's': 'a', 'x': 2.0}",
        ),
    ),
    "a row more": (
        [rows((1, 1.0, "a"))],
        [rows((1, 1.0, "a"), (1, 1.0, "a"))],
        (
            "1 rows in the source and 2 in the target",
            "only in the target: {'id': 1, 's': 'a', 'x': 1.0}",
            "only in the target: {'id': 1, 's': 'a', 'x': 1.0}",
        ),
    ),
    "a NaN of other bits": ([rows((1, NAN, None))], [rows((1, OTHER_NAN, None))], ()),
    "another zero": (
        [rows((1, 0.0, None))],
        [rows((1, -0.0, None))],
        (
            "the values of x differ",
            "only in the source: {'id': 1, 's': None, 'x': 0.0}",
            "only in the target: {'id': 1, 's': None, 'x': -0.0}",
        ),
    ),
    "null and empty": (
        [rows((1, None, ""))],
        [rows((1, None, None))],
        (
            "the values of s differ",
            "only in the source: {'id': 1, 's': '', 'x': None}",
            "only in the target: {'id': 1, 's': None, 'x': None}",
        ),
    ),
}


@pytest.mark.parametrize(("left", "right", "expected"), CASES.values(), ids=CASES)
def test_tasks_say_what_this_process_says(
    left: list[pa.Table], right: list[pa.Table], expected: tuple[str, ...], pair: Any, in_tasks: Any
) -> None:
    assert row_differences(both(*pair(left, right), in_tasks)) == expected


def test_a_column_that_a_file_lacks_is_null(
    pair: Any, in_tasks: Any, write_delta: Any, opened: Any, tmp_path: Path
) -> None:
    source, _ = pair([rows((1, None, "a"), (2, None, "b"))], [pa.table({"id": [1], "s": ["a"]})])
    delta = tmp_path / "delta"
    write_delta(rows((2, None, "b")), delta, schema_mode="merge")
    assert row_differences(both(source, opened(delta), in_tasks)) == ()


def test_a_mapped_type_is_compared_as_the_target_has_it(
    tmp_path: Path, write_iceberg_file: Any, opened: Any, in_tasks: Any
) -> None:
    fields = (ID, NestedField(field_id=2, name="u", required=False, type=UuidType()))
    schema, root = Schema(schema_id=0, fields=fields), str(tmp_path / "iceberg")
    some = pa.table({"id": [1, 2], "u": pa.array([b"0" * 16, None], pa.binary(16))})
    with create_table(open_storage(), root, schema=schema) as transaction:
        transaction.snapshot("append").add_files([write_iceberg_file(root, schema, some, UNPARTITIONED)], 0)
        transaction.commit()
    options = ConvertOptions(type_mappings={"uuid": "string"})
    done = convert(opened(root), to="delta", target=str(tmp_path / "delta"), options=options)
    assert both(opened(root), opened(done.target), in_tasks).equal


def test_sums_that_agree_under_one_key_are_not_enough(
    pair: Any, in_tasks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the base 1 anagrams have one hash."""
    source, target = pair([rows((1, 1.0, "ab"))], [rows((1, 1.0, "ba"))])
    keys = [HashKey(salt=5, base=1), HashKey(salt=7, base=0x9E3779B97F4A7C15)]
    for order in (keys, keys[::-1]):
        drawn = iter(order)
        monkeypatch.setattr(verify_rows, "_new_key", lambda drawn=drawn: next(drawn))
        assert row_differences(both(source, target, in_tasks))[0] == "the values of s differ"


def test_the_sums_of_a_file_of_many_batches_wrap_around(
    pair: Any, in_tasks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = itertools.cycle([HashKey(salt=5, base=3), HashKey(salt=7, base=5)])
    monkeypatch.setattr(verify_rows, "_new_key", lambda: next(keys))
    many = rows(*((n, None, None) for n in range(300_000)))
    assert row_differences(both(*pair([many], [many.slice(1), many.slice(0, 1)]), in_tasks)) == ()


def test_every_comparison_has_keys_of_its_own() -> None:
    keys = [verify_rows._new_key() for _ in range(50)]
    assert len(set(keys)) == len(keys)
    assert all(key.base % 2 for key in keys)


def test_the_command_compares_in_spark(
    pair: Any, spark: Any, command: Any, write_delta: Any, opened: Any, tmp_path: Path
) -> None:
    source, target = pair(MANY, MANY[::-1])
    assert both(source, target, SparkWork(spark)).to_json()["checks"][-1]["equal"] is True
    write_delta(rows((9, 9.0, "nine")), tmp_path / "delta")
    local, cluster = (
        command("verify", source.location, target.location, "--rows", "--json", "--engine", engine)
        for engine in ("local", "spark")
    )
    assert (local.code, cluster.code) == (4, 4)
    assert cluster.document == local.document
    assert "only in the target: {'id': 9" in cluster.out


@pytest.fixture
def shared_files(tmp_path: Path, write_iceberg_file: Any, opened: Any) -> tuple[Path, Any]:
    """A partitioned Iceberg table of eight files and the Delta table over the same files."""
    spec = PartitionSpec(
        spec_id=0, fields=(PartitionField(source_ids=(3,), field_id=1000, name="s", transform=IdentityTransform()),)
    )
    schema, root = Schema(schema_id=0, fields=(ID, NUMBER, TEXT)), str(tmp_path / "iceberg")
    with create_table(open_storage(), root, schema=schema, spec=spec) as transaction:
        files = [
            write_iceberg_file(root, schema, rows((n, 1.0, f"p{n % 2}"), (n, 2.0, f"p{n % 2}")), spec) for n in range(8)
        ]
        transaction.snapshot("append").add_files(files, 0)
        transaction.commit()
    convert(opened(root), to="delta")
    return Path(root), opened(root, format="iceberg")


def test_only_the_files_that_differ_are_read_again(
    shared_files: tuple[Path, Any], delete_from_delta: Any, opened: Any, in_tasks: Any
) -> None:
    root, source = shared_files
    assert both(source, opened(root, format="delta"), in_tasks).equal
    in_tasks.units.clear()
    delete_from_delta(root, {2: [1]})
    report = both(source, opened(root, format="delta"), in_tasks)
    assert {check.name for check in report.checks if not check.equal} == {
        "deleted rows of files",
        "rows in all",
        "rows",
    }
    assert "16 rows in the source and 15 in the target" in row_differences(report)
    assert len(row_differences(report)) == 2
    # Twice 8 files by two in a wave of four tasks; then one file of each table, three times of the source and twice
    # of the target, of which no row is missing in the source.
    assert in_tasks.units == [4, 4, 1, 1, 1, 1, 1]


def test_a_corrupt_file_is_named(shared_files: tuple[Path, Any], opened: Any, in_tasks: Any) -> None:
    root, source = shared_files
    file = next(iter(sorted((root / "data").rglob("*.parquet"))))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(DataFileError) as raised:
        spark_rows_check(in_tasks)(source, opened(root, format="delta"), ChosenOptions.of(source))
    assert raised.value.path == str(file)
