"""A mistyped keyword or a value of another type never changes what is done: it is an error that says what was meant."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import deltaberg
from deltaberg.api import ConversionKeywords, Where
from deltaberg.batch_file import read_tables
from deltaberg.errors import UsageError
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.spark import convert as spark_convert
from deltaberg.migrate.spark import verify as spark_verify
from deltaberg.migrate.spark.batch import TableRequest
from deltaberg.translate.options import ConvertOptions, OptionKeywords, option_types

NO_SESSION: Any = None


@pytest.fixture
def table(tmp_path: Path) -> str:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1, 2]}))
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [3]}), mode="append")
    return str(tmp_path / "t")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: deltaberg.convert(t, to="iceberg", format_verison=3), "convert: unknown key format_verison .did you mean format_version.."),
        (lambda t: deltaberg.convert(t, to="iceberg", version_=0), "convert: unknown key version_ .did you mean version.."),
        (lambda t: deltaberg.plan(t, to="iceberg", stict=True), "plan: unknown key stict .did you mean strict.."),
        (lambda t: deltaberg.inspect(t, snapshot=1), "inspect: unknown key snapshot .did you mean snapshot_id.."),
        (lambda t: deltaberg.scan(t, column=["id"]), "scan: unknown key column .expected one of allow_locations, as_of, "),
        (lambda t: deltaberg.history(t, strict=True), "history: unknown key strict"),
        (lambda t: deltaberg.verify(t, t, row=True), "verify: unknown key row"),
        (lambda t: deltaberg.convert(t, to="hudi"), "to must be one of iceberg, delta, found 'hudi'"),
        (lambda t: deltaberg.plan(t, to=None), "to must be one of iceberg, delta, found None"),
        (lambda t: deltaberg.convert(t, to="iceberg", version="3"), "version must be a whole number, found '3'"),
        (lambda t: deltaberg.convert(t, to="iceberg", version=True), "version must be a whole number, found True"),
        (lambda t: deltaberg.convert(t, to="iceberg", strict="yes"), "strict must be true or false, found 'yes'"),
        (lambda t: deltaberg.convert(t, to="iceberg", format_version=4), "format_version must be one of 1, 2, 3, found 4"),
        (lambda t: deltaberg.convert(t, to="iceberg", options={"strict": True}), "options must be a ConvertOptions"),
        (lambda t: deltaberg.convert(t, to="iceberg", target=7), "target must be a text or a PathLike, found 7"),
        (lambda t: deltaberg.convert(t, to="iceberg", history="every"), "history must be one of latest, all"),
        (lambda t: deltaberg.convert(t, to="iceberg", storage_options={"aws_region": 1}), "storage_options must be an object of texts"),
        (lambda t: deltaberg.convert(t, to="iceberg", progress=3), "progress must be a function, found 3"),
        (lambda t: deltaberg.convert(7, to="iceberg"), "Cannot open 7: expected a folder"),
        (lambda t: deltaberg.scan(t, columns="id"), "columns must be a list of texts, found 'id'"),
        (lambda t: deltaberg.scan(t, limit="1"), "limit must be a whole number"),
        (lambda t: deltaberg.verify(t, t, rows="yes"), "rows must be true or false"),
        (lambda t: deltaberg.verify(t, t, engine="sparc"), "engine must be one of local, spark"),
        (lambda t: deltaberg.inspect(t, format="hudi"), "format must be one of iceberg, delta"),
        (lambda t: deltaberg.inspect(t, as_of=3), "as_of must be a text or a datetime"),
        (lambda t: spark_convert(NO_SESSION, t, to="hudi"), "to must be one of iceberg, delta, found 'hudi'"),
        (lambda t: spark_convert(NO_SESSION, t, to="iceberg", stric=True), "unknown key stric .did you mean strict.."),
        (lambda t: spark_convert(NO_SESSION, t, to="iceberg", engine="local"), "unknown key engine"),
        (lambda t: spark_convert(NO_SESSION, t, to="iceberg", version="0"), "version must be a whole number"),
        (lambda t: spark_verify(NO_SESSION, t, t, to="iceberg", rows=1), "rows must be true or false"),
        (lambda t: TableRequest(name="a", source=t, to="hudi"), "to must be one of iceberg, delta"),
        (lambda t: TableRequest(name="a", source=t, to="delta", verify="row"), "verify must be one of none, metadata, rows"),
        (lambda t: read_tables('[{"source": "/x", "to": "delta", "stric": true}]'), "unknown key stric .did you mean strict.."),
        (lambda t: ConvertOptions(former_names="trust"), "former_names must be one of refuse, trust-ids, rewrite"),
    ],
)  # fmt: skip
def test_what_no_function_understands_is_a_usage_error(table: str, call: Callable[[str], object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(table)
    assert not (Path(table) / "_iceberg").exists()


def test_options_are_plain_keywords_too(table: str, tmp_path: Path) -> None:
    made = deltaberg.convert(table, to="iceberg", target=tmp_path / "v3", format_version=3, version=0)
    assert (made.plan.target["format_version"], made.rows) == (3, 2)
    planned = deltaberg.plan(
        table, to="iceberg", target=tmp_path / "n", options=ConvertOptions(format_version=3), strict=True
    )
    assert planned.target["format_version"] == 3
    assert TableRequest(name="a", source=table, to="iceberg").to is TableFormat.ICEBERG  # type: ignore[arg-type]


def test_an_option_given_twice_is_a_usage_error(table: str) -> None:
    for again in (2, 3):
        with pytest.raises(UsageError, match="format_version is given as a keyword and in options; leave one out"):
            deltaberg.convert(table, to="iceberg", options=ConvertOptions(format_version=2), format_version=again)


def test_whole_numbers_of_numpy_are_whole_numbers(table: str) -> None:
    assert deltaberg.inspect(table, version=np.int64(0)).to_json()["version"] == 0
    assert type(ConvertOptions(target_file_size=np.int64(1 << 20)).target_file_size) is int  # type: ignore[arg-type]


def test_the_keywords_are_the_options_with_their_types() -> None:
    options = {each.name for each in dataclasses.fields(ConvertOptions)}
    assert set(OptionKeywords.__annotations__) == options - {"engine"}
    assert set(ConversionKeywords.__annotations__) == set(Where.__annotations__) | options
    hints = typing.get_type_hints(OptionKeywords)
    assert hints == {name: kind for name, kind in option_types().items() if name != "engine"}
