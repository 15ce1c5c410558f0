"""Footers are taken to have equal columns only where they do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.datafile.parquet.parquet_footer import footer_bytes
from deltaberg.datafile.parquet.parquet_outline import FooterForm, outline_of
from deltaberg.migrate.files.file_layout import LayoutReader, read_layout
from deltaberg.storage import open_storage

SPARK = b"org.apache.spark.version"
LEGACY = b"org.apache.spark.legacyDateTime"


def footer(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return footer_bytes(pa.BufferReader(sink.getvalue()))


def form(table: pa.Table, **options: Any) -> FooterForm:
    found = FooterForm.of(footer(table, **options))
    assert found is not None
    return found


def with_id(name: str, kind: pa.DataType, field_id: int | None) -> pa.Field:
    return pa.field(name, kind, metadata={} if field_id is None else {"PARQUET:field_id": str(field_id)})


def table_of(*fields: pa.Field, rows: int = 1, key_values: dict[bytes, bytes] | None = None) -> pa.Table:
    return pa.table([pa.nulls(rows, each.type) for each in fields], schema=pa.schema(fields, metadata=key_values))


USUAL = (with_id("a", pa.int64(), None), with_id("s", pa.struct([with_id("x", pa.date32(), None)]), None))


@pytest.mark.parametrize("rows", [1, 63, 64, 100_000])
def test_files_of_equal_columns_have_one_form(rows: int) -> None:
    assert form(table_of(*USUAL)).rows_of(footer(table_of(*USUAL, rows=rows))) == rows


@pytest.mark.parametrize(
    "other",
    [
        (with_id("a", pa.int64(), 1), USUAL[1]),
        (with_id("A", pa.int64(), None), USUAL[1]),
        (with_id("a", pa.int32(), None), USUAL[1]),
        (USUAL[0], with_id("s", pa.struct([with_id("x", pa.date32(), 3)]), None)),
        (USUAL[0], with_id("s", USUAL[1].type, 3)),
        (USUAL[1], USUAL[0]),
        (*USUAL, with_id("b", pa.int64(), None)),
        USUAL[:1],
    ],
)
def test_other_columns_are_another_form(other: tuple[pa.Field, ...]) -> None:
    found, data = form(table_of(*USUAL)), footer(table_of(*other))
    assert found.rows_of(data) is None
    assert not found.has_columns_of(outline_of(data))


@pytest.mark.parametrize("keys", [{SPARK: b"2.4.8"}, {SPARK: b"3.5.1", LEGACY: b""}])
def test_a_calendar_is_another_form(keys: dict[bytes, bytes]) -> None:
    found, data = form(table_of(*USUAL)), footer(table_of(*USUAL, key_values=keys))
    assert found.rows_of(data) is None
    assert not found.has_columns_of(outline_of(data))


def test_int96_is_another_form() -> None:
    moments = table_of(pa.field("t", pa.timestamp("us")))
    found, data = form(moments), footer(moments, use_deprecated_int96_timestamps=True)
    assert found.rows_of(data) is None
    assert not found.has_columns_of(outline_of(data))


def test_key_values_without_a_meaning_make_no_other_columns() -> None:
    bare, noted = table_of(*USUAL), table_of(*USUAL, key_values={b"note": b"written on a Monday"})
    found = form(bare, store_schema=False)
    assert found.has_columns_of(outline_of(footer(noted, store_schema=False)))


KINDS = st.sampled_from([pa.int32(), pa.int64(), pa.string(), pa.date32(), pa.timestamp("us"), pa.list_(pa.int64())])
FIELDS = st.builds(with_id, st.sampled_from(["a", "b", "id"]), KINDS, st.none() | st.integers(1, 3))
KEYS = st.dictionaries(st.sampled_from([SPARK, LEGACY, b"note"]), st.sampled_from([b"2.4.0", b"3.5.0"]), max_size=2)
TABLES = st.builds(
    lambda fields, rows, keys: table_of(*fields, rows=rows, key_values=keys),
    st.lists(FIELDS, min_size=1, max_size=3, unique_by=lambda each: each.name),
    st.integers(1, 200),
    KEYS,
)
OPTIONS = st.fixed_dictionaries({"use_deprecated_int96_timestamps": st.booleans(), "store_schema": st.booleans()})


@given(st.lists(st.tuples(TABLES, OPTIONS), min_size=2, max_size=6))
def test_files_looked_at_together_are_described_as_each_alone(
    tmp_path_factory: pytest.TempPathFactory, files: list[tuple[pa.Table, dict[str, Any]]]
) -> None:
    folder: Path = tmp_path_factory.mktemp("files")
    places = [str(folder / f"{number}.parquet") for number in range(len(files))]
    for place, (table, options) in zip(places, files, strict=True):
        pq.write_table(table, place, **options)
    storage = open_storage()
    reader = LayoutReader(storage, 1)
    assert [reader.sample(place) for place in places] == [read_layout(storage, place) for place in places]
