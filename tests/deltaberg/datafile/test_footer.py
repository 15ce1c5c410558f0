"""Footers: what they say of counts, ids, physical kinds and calendars, for one file and many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.datafile import DataFileError, ParquetSource, ReadField, footer_facts, read_footers
from deltaberg.storage import NotFound, open_storage

I32, BINARY, LIST = 5, 8, 9
EditFooter = Callable[[Path, Callable[[dict[int, Any]], None]], None]


def with_id(name: str, kind: pa.DataType, number: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(number)})


NESTED = pa.schema(
    [
        with_id("id", pa.int64(), 1, False),
        with_id("s.t", pa.struct([with_id("x", pa.int32(), 3), pa.field("y", pa.string())]), 2),
        with_id("l", pa.list_(with_id("element", pa.int32(), 5, False)), 4),
        with_id("m", pa.map_(with_id("key", pa.string(), 7, False), with_id("value", pa.int64(), 8)), 6),
    ]
)
ROWS = [
    {"id": 1, "s.t": {"x": 1, "y": None}, "l": [1, 2], "m": [("a", 1)]},
    {"id": 2, "s.t": None, "l": [], "m": []},
    {"id": 3, "s.t": {"x": None, "y": "b"}, "l": None, "m": None},
]


def write(path: Path, schema: pa.Schema = NESTED, rows: list[dict[str, Any]] = ROWS, **options: Any) -> str:
    pq.write_table(pa.Table.from_pylist(rows, schema), path, **options)
    return str(path)


def test_one_footer_tells_rows_ids_paths_and_null_counts(tmp_path: Path) -> None:
    facts = footer_facts(open_storage(), write(tmp_path / "f.parquet", row_group_size=2))
    assert facts.num_rows == 3
    assert [leaf.path for leaf in facts.layout.leaves] == [
        ("id",), ("s.t", "x"), ("s.t", "y"), ("l", "element"), ("m", "key"), ("m", "value"),
    ]  # fmt: skip
    assert [leaf.field_id for leaf in facts.layout.leaves] == [1, 3, None, 5, 7, 8]
    assert [leaf.repeated for leaf in facts.layout.leaves] == [False, False, False, True, True, True]
    assert facts.null_counts[:3] == (0, 2, 2)
    assert facts.layout.has_field_ids
    assert facts.layout.two_level_lists == ()
    assert facts.layout.int96_columns == ()
    assert facts.created_by is not None
    assert not facts.legacy_datetime
    assert not facts.legacy_int96


def test_missing_statistics_are_unknown_not_zero(tmp_path: Path) -> None:
    facts = footer_facts(open_storage(), write(tmp_path / "f.parquet", write_statistics=False))
    assert facts.null_counts == (None,) * 6


def test_files_of_one_layout_share_it(tmp_path: Path) -> None:
    same = [write(tmp_path / f"{number}.parquet") for number in range(5)]
    without_ids = pa.schema([pa.field(field.name, field.type) for field in NESTED])
    other_id = NESTED.set(0, with_id("id", pa.int64(), 99, False))
    other = [
        write(tmp_path / "a.parquet", without_ids),
        write(tmp_path / "b.parquet", other_id),
        write(tmp_path / "c.parquet", pa.schema([pa.field("id", pa.int64())]), [{"id": None}]),
    ]
    for threads in (1, 4):
        footers = read_footers(open_storage(), [*same, *other], threads=threads)
        assert footers.files["layout"].to_pylist() == [0] * 5 + [1, 2, 3]
        assert footers.files["location"].to_pylist() == [*same, *other]
        assert footers.files["num_rows"].to_pylist() == [3] * 7 + [1]
        assert footers.files["null_counts"].to_pylist()[-1] == [1]
        assert [layout.leaves[0].field_id for layout in footers.layouts] == [1, None, 99, None]
    assert read_footers(open_storage(), []).files.num_rows == 0


def test_int96_columns_are_named(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("us")), ("l", pa.list_(pa.timestamp("us"))), ("d", pa.date32())])
    path = write(tmp_path / "f.parquet", schema, [], use_deprecated_int96_timestamps=True)
    layout = footer_facts(open_storage(), path).layout
    assert layout.int96_columns == ("t", "l.element")
    assert [leaf.is_calendar_dependent for leaf in layout.leaves] == [True, True, True]


@pytest.mark.parametrize(
    ("keys", "datetime", "int96"),
    [
        ({}, False, False),
        ({"org.apache.spark.legacyDateTime": ""}, False, False),
        ({"org.apache.spark.version": "4.1.4"}, False, False),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}, True, False),
        ({"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyINT96": ""}, False, True),
        ({"org.apache.spark.version": "3.0.3"}, False, True),
        ({"org.apache.spark.version": "2.4.8"}, True, True),
        ({"org.apache.spark.version": "10.0.0"}, False, False),
    ],
)
def test_legacy_calendars_follow_sparks_rule(tmp_path: Path, keys: dict[str, str], datetime: bool, int96: bool) -> None:
    facts = footer_facts(open_storage(), write(tmp_path / "f.parquet", NESTED.with_metadata(keys)))
    assert (facts.legacy_datetime, facts.legacy_int96) == (datetime, int96)


def two_level(metadata: dict[int, Any]) -> None:
    """Turn ``optional group l (LIST) { repeated group list { required int32 element } }`` into the two-level form."""
    elements = metadata[2][1][1]
    index = next(i for i, element in enumerate(elements) if element[4][1] == b"list")
    inner = elements.pop(index + 1)
    elements[index] = {**inner, 3: (I32, 2), 4: (BINARY, b"array")}
    for group in metadata[4][1][1]:
        for chunk in group[1][1][1]:
            path = chunk[3][1][3][1][1]
            if path[:2] == [b"l", b"list"]:
                path[1:] = [b"array"]


def test_two_level_lists_are_named_and_read(tmp_path: Path, edit_footer: EditFooter) -> None:
    path = tmp_path / "f.parquet"
    write(path, store_schema=False)
    edit_footer(path, two_level)
    facts = footer_facts(open_storage(), str(path))
    assert facts.layout.two_level_lists == ("l",)
    assert [leaf.path for leaf in facts.layout.leaves][3] == ("l", "element")
    element = ReadField(name="element", physical_name="element", type=pa.int64(), field_id=5)
    field = ReadField(
        name="l",
        physical_name="l",
        type=pa.list_(pa.field("element", pa.int64())),
        field_id=4,
        children=(element,),
    )
    for match in ("id", "name"):
        with ParquetSource(open_storage(), str(path)) as source:
            (batch,) = source.iter_batches([field], match=match)  # type: ignore[arg-type]
        assert batch["l"].to_pylist() == [[1, 2], [], None]


def test_broken_footers_are_our_own_error(tmp_path: Path, edit_footer: EditFooter) -> None:
    good = tmp_path / "good.parquet"
    write(good)
    data = good.read_bytes()
    cases = {
        "empty": b"",
        "short": b"PAR1",
        "text": b"not a parquet file, but long enough to look",
        "cut": data[:-20],
        "no-footer": data[:-8] + b"\xff\xff\xff\x7fPAR1",
        "encrypted": data[:-4] + b"PARE",
        "zeros": data[:4] + bytes(len(data) - 12) + data[-8:],
    }
    for name, content in cases.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        for read in (footer_facts, lambda storage, location: read_footers(storage, [location])):
            with pytest.raises(DataFileError) as raised:
                read(open_storage(), str(path))
            assert str(path) in str(raised.value)
            assert "\n" not in str(raised.value)
    with pytest.raises(NotFound):
        footer_facts(open_storage(), str(tmp_path / "absent.parquet"))

    def change_rows(metadata: dict[int, Any]) -> None:
        metadata[3] = (6, 4)

    edit_footer(good, change_rows)
    with pytest.raises(DataFileError, match="expected 4 in all"):
        footer_facts(open_storage(), str(good))
