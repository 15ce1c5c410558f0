"""Every entry point names and opens a table in one way: what stops one stops all of them, in the same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.batch_file import read_tables
from deltaberg.errors import DeltabergError, NotATable, UsageError
from deltaberg.migrate import spark
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.source import DeltaSource, IcebergSource, Selector, TableFormat
from deltaberg.migrate.spark.batch import TableRequest
from deltaberg.migrate.table_ref import TableRef

# What must be decided before a session is asked for anything.
NO_SESSION = cast("Any", object())


def raised(call: Callable[[], object]) -> DeltabergError:
    with pytest.raises(DeltabergError) as caught:
        call()
    return caught.value


@pytest.fixture
def delta_table(tmp_path: Path) -> str:
    deltalake = pytest.importorskip("deltalake")
    folder = tmp_path / "table"
    deltalake.write_deltalake(str(folder), pa.table({"id": pa.array([1, 2], pa.int64())}))
    deltalake.write_deltalake(str(folder), pa.table({"id": pa.array([3], pa.int64())}), mode="append")
    return str(folder)


@pytest.mark.parametrize("to", ["iceberg", "delta"])
@pytest.mark.parametrize("target", [None, "target"])
def test_a_missing_table_is_refused_with_one_plan_by_every_entry_point(
    tmp_path: Path, to: Any, target: str | None
) -> None:
    missing, place = str(tmp_path / "missing"), None if target is None else str(tmp_path / target)
    request = TableRequest(name="t", source=missing, to=TableFormat(to), target=place)
    errors = [
        raised(lambda: deltaberg.convert(missing, to=to, target=place)),
        raised(lambda: spark.convert(NO_SESSION, missing, to=to, target=place)),
        raised(request.open_source),
    ]
    assert [type(error) for error in errors] == [Refused] * 3
    assert [error.exit_code for error in errors] == [3] * 3
    assert {str(error) for error in errors} == {str(errors[0])}
    assert {error.table for error in errors} == {missing}
    plans = [error.plan.to_json() for error in errors if isinstance(error, Refused)]
    assert plans == [deltaberg.plan(missing, to=to, target=place).to_json()] * 3
    assert [item["code"] for item in plans[0]["items"]] == ["source-unreadable"]
    assert plans[0]["target"]["location"] == place or f"{missing}{'/_iceberg' if to == 'iceberg' else ''}"


def test_a_missing_table_of_another_verb_is_exit_code_1(tmp_path: Path, delta_table: str) -> None:
    missing = str(tmp_path / "missing")
    for call in (
        lambda: deltaberg.inspect(missing),
        lambda: deltaberg.verify(missing, delta_table),
        lambda: spark.verify(NO_SESSION, missing, delta_table, to="delta"),
        lambda: spark.verify(NO_SESSION, delta_table, missing, to="iceberg"),
    ):
        error = raised(call)
        assert (type(error), error.exit_code, error.table) == (NotATable, 1, missing)


def test_no_entry_point_compares_a_table_with_itself(delta_table: str) -> None:
    """A folder was to hold both tables, and one of them is gone: that is no equality."""
    for to, wanted in (("iceberg", "iceberg"), ("delta", "iceberg")):
        errors = [
            raised(lambda to=to: deltaberg.verify(delta_table, delta_table, to=to)),
            raised(lambda to=to: spark.verify(NO_SESSION, delta_table, delta_table, to=to)),
        ]
        expected = f"Cannot verify {delta_table}: it holds no {wanted} table (expected one of each format)"
        assert [(type(error), error.exit_code, str(error)) for error in errors] == [(NotATable, 1, expected)] * 2


def test_an_option_that_is_given_twice_is_found_before_the_table_is_opened(tmp_path: Path) -> None:
    twice = deltaberg.ConvertOptions(format_version=3)
    missing = str(tmp_path / "missing")
    errors = [
        raised(lambda: deltaberg.convert(missing, to="iceberg", options=twice, format_version=2)),
        raised(lambda: spark.convert(NO_SESSION, missing, to="iceberg", options=twice, format_version=2)),
    ]
    assert [type(error) for error in errors] == [UsageError] * 2
    assert len({str(error) for error in errors}) == 1


def test_one_text_is_no_list_of_prefixes_that_are_allowed(tmp_path: Path) -> None:
    """Taken letter by letter, its first one would allow every local file."""
    missing, alone = str(tmp_path / "missing"), cast("Any", "/data")
    document = json.dumps([{"source": missing, "to": "iceberg", "allow_locations": "/data"}])
    for call in (
        lambda: deltaberg.inspect(missing, allow_locations=alone),
        lambda: deltaberg.convert(missing, to="iceberg", allow_locations=alone),
        lambda: spark.convert(NO_SESSION, missing, to="iceberg", allow_locations=alone),
        lambda: spark.verify(NO_SESSION, missing, missing, to="iceberg", allow_locations=alone),
        lambda: TableRequest(name="t", source=missing, to=TableFormat.ICEBERG, allow_locations=alone),
        lambda: read_tables(document),
    ):
        error = raised(call)
        assert type(error) is UsageError
        assert "allow_locations must be a list of texts, found " in str(error)


def test_a_reference_opens_the_state_that_it_names(delta_table: str) -> None:
    newest, oldest = TableRef(location=delta_table), TableRef(location=delta_table, selector=Selector(version=0))
    versions = []
    for ref in (newest, oldest, oldest.newest_at(delta_table, format=None)):
        source = ref.open()
        assert isinstance(source, DeltaSource)
        versions.append(source.snapshot.version)
    assert versions == [1, 0, 1]


def test_the_source_of_a_conversion_is_the_table_of_the_other_format(delta_table: str) -> None:
    done = deltaberg.convert(delta_table, to="iceberg")
    deltaberg.convert(done.target, to="delta")
    both = TableRef(location=done.target)
    assert isinstance(both.open_to_convert(TableFormat.DELTA, target=None), IcebergSource)
    assert isinstance(both.open_to_convert(TableFormat.ICEBERG, target=None), DeltaSource)
    assert [each.format.value for each in both.open_to_verify(done.target, to=TableFormat.DELTA)] == [
        "iceberg",
        "delta",
    ]
    assert "choose with --format" in str(raised(both.open))


def test_a_reference_shows_no_credentials() -> None:
    assert "hush" not in repr(TableRef(location="s3://bucket/t", storage_options={"secret_access_key": "hush"}))
