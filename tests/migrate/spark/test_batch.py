"""Many tables in one job: each for itself, and a report that says what became of every one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.batch_file import read_tables
from deltaberg.errors import UsageError
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, UuidType
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.spark import batch as many_tables
from deltaberg.migrate.spark.batch import ManyTables, TableOutcome, TableRequest, convert_many
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

ID = NestedField(field_id=1, name="id", required=False, type=LongType())
KEY = NestedField(field_id=2, name="u", required=False, type=UuidType())


@pytest.fixture
def uuid_table(tmp_path: Path, write_iceberg_file: Any) -> str:
    """An Iceberg table with a column that Delta lacks."""
    schema, root = Schema(schema_id=0, fields=(ID, KEY)), str(tmp_path / "uuid")
    rows = pa.table({"id": [1, 2], "u": pa.array([b"0" * 16, None], pa.binary(16))})
    with create_table(open_storage(), root, schema=schema) as transaction:
        transaction.snapshot("append").add_files([write_iceberg_file(root, schema, rows, UNPARTITIONED)], 0)
        transaction.commit()
    return root


def test_one_broken_table_fails_alone(
    tmp_path: Path, write_delta: Any, uuid_table: str, opened: Any, delta_rows: Any, spark: Any, command: Any
) -> None:
    folders = [write_delta(pa.table({"id": [n, n + 1]}), tmp_path / f"delta{n}") for n in range(2)]
    broken = write_delta(pa.table({"id": [1]}), tmp_path / "broken")
    (broken / "_delta_log" / f"{0:020d}.json").write_text("{}\nnot a line\n", encoding="utf-8")
    listed = {
        "defaults": {"to": "iceberg", "verify": "rows"},
        "tables": [
            str(folders[0]),
            {"source": str(tmp_path / "nowhere"), "name": "gone"},
            {"source": str(broken), "name": "broken"},
            {"source": uuid_table, "to": "delta", "name": "refused"},
            {
                "source": uuid_table,
                "to": "delta",
                "name": "mapped",
                "target": str(tmp_path / "mapped"),
                "type_mappings": {"uuid": "string"},
            },
            {"source": str(folders[1]), "name": "last", "format_version": 3},
        ],
    }
    told: list[str] = []
    done = convert_many(spark, read_tables(json.dumps(listed)), at_once=2, on_done=lambda each: told.append(each.name))
    assert [(each.name, each.status, each.exit_code) for each in done.tables] == [
        (str(folders[0]), "converted", 0),
        ("gone", "refused", 3),
        ("broken", "refused", 3),
        ("refused", "refused", 3),
        ("mapped", "converted", 0),
        ("last", "converted", 0),
    ], done.summary()
    assert sorted(told) == sorted(each.name for each in done.tables)
    assert done.exit_code == 3
    report = done.to_json()
    assert report["statuses"] == {"converted": 3, "refused": 3}
    assert json.loads(json.dumps(report)) == report
    assert "nowhere" in report["tables"][1]["error"]
    assert "uuid" in report["tables"][3]["error"]
    sources = (str(tmp_path / "nowhere"), str(broken), uuid_table)
    for one, source in zip(report["tables"][1:4], sources, strict=True):
        alone = command("convert", source, "--to", "delta" if source == uuid_table else "iceberg", "--json")
        said = alone.document["error"]
        assert (one["exit_code"], one["feature"]) == (alone.code, said["feature"])
        assert (one["error"], one["plan"]) == (said["message"], alone.document["plan"])
    assert [one["feature"] for one in report["tables"][1:4]] == [
        "source-unreadable",
        "source-unreadable",
        "type-not-in-delta",
    ]
    mapped = report["tables"][4]
    assert mapped["result"]["rewritten_files"] == 1
    assert mapped["verification"]["equal"] is True
    assert set(delta_rows(tmp_path / "mapped")["u"].to_pylist()) == {"30303030-3030-3030-3030-303030303030", None}
    assert verify(opened(folders[1]), opened(folders[1] / "_iceberg"), rows=True).equal
    again = convert_many(spark, read_tables(json.dumps([listed["tables"][-1] | {"to": "iceberg"}])))
    assert [(each.status, each.exit_code) for each in again.tables] == [("current", 0)]
    assert again.exit_code == 0


def outcome(name: str, code: int, **more: Any) -> TableOutcome:
    return TableOutcome(
        name=name, source=f"/{name}", status=more.pop("status", "failed"), exit_code=code, seconds=1.25, **more
    )


@pytest.mark.parametrize(
    ("codes", "expected"), [([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 4], 4), ([4, 5, 3], 5), ([5, 1, 3], 1), ([2, 3], 3)]
)
def test_the_exit_code_is_that_of_the_worst_table(codes: list[int], expected: int) -> None:
    made = ManyTables(tables=tuple(outcome(str(place), code) for place, code in enumerate(codes)))
    assert made.exit_code == expected


def test_the_summary_has_a_line_for_each_table() -> None:
    made = ManyTables(tables=(outcome("orders", 1, error="Cannot read it"), outcome("x", 3, status="refused")))
    assert made.summary().splitlines() == [
        "status   table   files  rewritten  rows  seconds",
        "failed   orders                              1.2  Cannot read it",
        "refused  x                                   1.2",
        "2 tables: 1 failed, 1 refused",
    ]


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(many_tables, "spark_session", lambda session: session)
    monkeypatch.setattr(many_tables, "ship_package", lambda _: None)
    return monkeypatch


def requests(*names: str) -> tuple[TableRequest, ...]:
    return tuple(TableRequest(name=name, source=f"/{name}", to=TableFormat.DELTA) for name in names)


def test_so_many_tables_are_worked_on_at_a_time_and_no_more(without_spark: pytest.MonkeyPatch) -> None:
    """Two meet in the barrier; a third would break it, and without a second it would never open."""
    barrier, together, most = threading.Barrier(2, timeout=60), [0], [0]
    lock = threading.Lock()

    def convert(self: Any, request: TableRequest) -> TableOutcome:
        with lock:
            together[0] += 1
            most[0] = max(most[0], together[0])
        barrier.wait()
        with lock:
            together[0] -= 1
        return outcome(request.name, 0, status="converted")

    without_spark.setattr(many_tables._Tables, "convert", convert)
    done = convert_many(None, requests("a", "b", "c", "d"), at_once=2)
    assert [each.name for each in done.tables] == ["a", "b", "c", "d"]
    assert most == [2]


def test_a_defect_is_the_failure_of_its_table_and_of_no_other(without_spark: pytest.MonkeyPatch) -> None:
    def convert(self: Any, request: TableRequest) -> TableOutcome:
        if request.name == "b":
            raise ZeroDivisionError("division by\nzero")
        return outcome(request.name, 0, status="converted")

    without_spark.setattr(many_tables._Tables, "convert", convert)
    done = convert_many(None, requests("a", "b", "c"))
    assert [(each.status, each.error) for each in done.tables] == [
        ("converted", None),
        ("failed", "ZeroDivisionError: division by zero"),
        ("converted", None),
    ]


def test_an_interruption_leaves_the_tables_that_have_not_begun(without_spark: pytest.MonkeyPatch) -> None:
    begun: list[str] = []

    def convert(self: Any, request: TableRequest) -> TableOutcome:
        begun.append(request.name)
        return outcome(request.name, 0, status="converted")

    def interrupt(_: TableOutcome) -> None:
        raise KeyboardInterrupt

    without_spark.setattr(many_tables._Tables, "convert", convert)
    with pytest.raises(KeyboardInterrupt):
        convert_many(None, requests(*(f"t{number}" for number in range(500))), at_once=1, on_done=interrupt)
    assert len(begun) < 500


def test_an_interruption_stops_the_tables_in_work_and_waits_for_them(without_spark: pytest.MonkeyPatch) -> None:
    """The second table waits for a job that nothing but its cancellation ends."""
    ended, cancelled = list[str](), threading.Event()
    begun = threading.Event()

    def convert(self: Any, request: TableRequest) -> TableOutcome:
        if request.name == "b":
            begun.set()
            assert cancelled.wait(60)
            ended.append(threading.current_thread().name)
        else:
            assert begun.wait(60)
        return outcome(request.name, 0, status="converted")

    def cancel(threads: set[int]) -> None:
        assert threads
        assert threading.get_ident() not in threads
        cancelled.set()

    def interrupt(_: TableOutcome) -> None:
        raise KeyboardInterrupt

    without_spark.setattr(many_tables._Tables, "convert", convert)
    without_spark.setattr(many_tables, "cancel_jobs", cancel)
    with pytest.raises(KeyboardInterrupt):
        convert_many(None, requests("a", "b", "c"), at_once=2, on_done=interrupt)
    assert len(ended) == 1


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: requests("a", "a"), "both called a"),
        (
            lambda: (
                TableRequest(name="a", source="/x", to=TableFormat.DELTA),
                TableRequest(name="b", source="/y", to=TableFormat.DELTA, target="/x/"),
            ),
            r"Cannot write b and a to one delta table \(/x\)",
        ),
        (
            lambda: (
                TableRequest(name="a", source="/x", to=TableFormat.ICEBERG),
                TableRequest(name="b", source="/y", to=TableFormat.ICEBERG, target="file:/x/_iceberg"),
            ),
            r"to one iceberg table \(/x/_iceberg\)",
        ),
    ],
)
def test_two_requests_never_write_one_table(made: Callable[[], tuple[TableRequest, ...]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        convert_many(None, made())


def test_nothing_to_do_needs_no_spark() -> None:
    assert convert_many(None, ()).exit_code == 0
    with pytest.raises(UsageError, match="0 tables at a time"):
        convert_many(None, (), at_once=0)


def test_a_list_of_tables_gives_every_choice_of_the_command() -> None:
    (one, two) = read_tables(
        json.dumps(
            {
                "defaults": {"to": "delta", "strict": True, "relocate": {"s3://a": "/b"}, "verify": "metadata"},
                "tables": [
                    {
                        "source": "/x",
                        "name": "x",
                        "target": "/y",
                        "ref": "main",
                        "as_of": "2024-01-01",
                        "snapshot_id": 5,
                        "type_mappings": {"uuid": "string"},
                        "storage_options": {"region": "eu"},
                    },
                    {
                        "source": "/z",
                        "to": "iceberg",
                        "version": 3,
                        "strict": False,
                        "format_version": 2,
                        "verify": "none",
                    },
                ],
            }
        )
    )
    assert one == TableRequest(
        name="x",
        source="/x",
        to=TableFormat.DELTA,
        target="/y",
        options=ConvertOptions(strict=True, type_mappings={"uuid": "string"}, engine="spark"),
        verify="metadata",
        snapshot_id=5,
        ref="main",
        as_of_ms=1704067200000,
        relocate={"s3://a": "/b"},
        storage_options={"region": "eu"},
    )
    assert (two.name, two.version, two.options) == ("/z", 3, ConvertOptions(format_version=2, engine="spark"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "Cannot read the list of tables: it is not JSON"),
        ('{"table": []}', r'expected {"tables": \[...\]}, found an object'),
        ('{"tables": [], "default": {}}', "unknown key default"),
        ('{"tables": [], "defaults": []}', "defaults must be an object, found a list"),
        ("[1]", "table 1: expected an object, found something else"),
        ('["/x"]', "table 1: to is missing"),
        ('[{"to": "delta"}]', "table 1: source is missing"),
        ('[{"source": "/x", "to": "hudi"}]', 'to must be one of iceberg, delta, found "hudi"'),
        ('[{"source": "/x", "to": "delta", "strict": "yes"}]', 'strict must be true or false, found "yes"'),
        ('[{"source": "/x", "to": "delta", "version": true}]', "version must be a whole number, found true"),
        ('[{"source": "/x", "to": "delta", "relocate": ["a"]}]', "relocate must be an object of texts"),
        ('[{"source": "/x", "to": "delta", "engine": "local"}]', "unknown key engine"),
        ('[{"source": "/x", "to": "delta", "as_of": "soon"}]', "Cannot read the moment 'soon'"),
    ],
)
def test_a_wrong_list_is_refused_by_its_place(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_tables(text)
