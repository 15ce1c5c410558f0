"""Rows of file actions from whatever columns a reader found."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.file_actions import add_rows, file_keys, remove_rows, vector_ids

TEXTS = pa.map_(pa.string(), pa.string())
MAPS = st.none() | st.lists(st.tuples(st.sampled_from("pqr"), st.none() | st.sampled_from(["", "x", "y"])), max_size=4)


def adds(**columns: pa.Array) -> pa.StructArray:
    rows = len(next(iter(columns.values())))
    required = {
        "path": pa.array([f"f{n}" for n in range(rows)], pa.string()),
        "size": pa.array(range(rows), pa.int64()),
    }
    every = {**required, **columns}
    return pa.StructArray.from_arrays(list(every.values()), names=list(every))


@given(st.lists(MAPS, max_size=8), st.integers(0, 8))
def test_partition_values_are_taken_from_maps_row_by_row(
    maps: list[list[tuple[str, str | None]] | None], start: int
) -> None:
    column = pa.array(maps, TEXTS)[start:]
    rows = add_rows(adds(partitionValues=column), ["q", "p"])
    wanted = [{name: dict(each or ()).get(name) or None for name in ("q", "p")} for each in maps[start:]]
    assert rows.column("partition_values").to_pylist() == wanted


def test_parsed_partition_values_stand_in_for_texts_that_were_left_out() -> None:
    parsed = pa.array([{"d": date(2024, 1, 2), "n": 5}, {"d": None, "n": -1}, None])
    rows = add_rows(adds(partitionValues_parsed=parsed), ["n", "d", "x"])
    assert rows.column("partition_values").to_pylist() == [
        {"n": "5", "d": "2024-01-02", "x": None},
        {"n": "-1", "d": None, "x": None},
        {"n": None, "d": None, "x": None},
    ]
    texts = pa.array([[("n", "7")]] * 3, TEXTS)
    rows = add_rows(adds(partitionValues_parsed=parsed, partitionValues=texts), ["n"])
    assert rows.column("partition_values").to_pylist() == [{"n": "7"}] * 3


@pytest.mark.parametrize("rows", [0, 3])
def test_a_table_without_partition_columns_has_empty_partition_values(rows: int) -> None:
    values = add_rows(adds(size=pa.array(range(rows), pa.int64())), []).column("partition_values")
    assert values.to_pylist() == [{}] * rows
    assert values.type == pa.struct([])


def test_what_a_reader_did_not_find_is_null() -> None:
    rows = add_rows(adds(size=pa.array([1, 2], pa.int32())), ["p"])
    assert rows.num_rows == 2
    assert rows.column("size").to_pylist() == [1, 2]
    for name in ("modification_time", "stats", "deletion_vector", "base_row_id", "tags", "clustering_provider"):
        assert rows.column(name).null_count == 2
    assert rows.column("partition_values").to_pylist() == [{"p": None}] * 2


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"path": pa.array([None], pa.string())}, "path is missing"),
        ({"size": pa.array([None], pa.int64())}, "size is missing"),
        ({"size": pa.array(["ten"])}, "size is of type string"),
        ({"size": pa.array([-5])}, "size is negative"),
        ({"stats": pa.array([[1]])}, "stats is of type list"),
        ({"tags": pa.array(["x"])}, "tags is of type string"),
        ({"deletionVector": pa.array(["x"])}, "deletionVector is of type string"),
        ({"deletionVector": pa.array([{"storageType": "u"}])}, "deletionVector.pathOrInlineDv is missing"),
        ({"partitionValues": pa.array(["x"])}, "partitionValues is of type string"),
        ({"partitionValues_parsed": pa.array(["x"])}, "partitionValues_parsed is of type string"),
        ({"partitionValues_parsed": pa.array([{"p": [1]}])}, "partitionValues_parsed.p is of type list"),
    ],
)
def test_a_column_of_another_kind_is_named(columns: dict[str, pa.Array], message: str) -> None:
    with pytest.raises(CorruptLog, match="Cannot read") as caught:
        add_rows(adds(**columns), ["p"])
    assert message in str(caught.value)


def test_a_remove_needs_no_more_than_a_path() -> None:
    rows = remove_rows(pa.array([{"path": "a"}]), ["p"])
    assert rows.to_pylist()[0] == {
        "path": "a",
        "partition_values": {"p": None},
        "size": None,
        "deletion_timestamp": None,
        "data_change": None,
        "extended_file_metadata": None,
        "deletion_vector": None,
        "base_row_id": None,
        "default_row_commit_version": None,
        "tags": None,
    }


def test_the_unique_id_of_a_vector_has_its_offset_where_there_is_one() -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40, "cardinality": 6}
    vectors = pa.array([{**vector, "offset": 4}, {**vector, "offset": None}, None])
    rows = add_rows(adds(deletionVector=vectors), [])
    assert vector_ids(rows).to_pylist() == ["uab^-aqEH.-t@S}K{vb[*k^@4", "uab^-aqEH.-t@S}K{vb[*k^", None]
    paths, files = file_keys(rows)
    assert paths.to_pylist() == ["f0", "f1", "f2"]
    assert files.to_pylist() == ["f0\0uab^-aqEH.-t@S}K{vb[*k^@4", "f1\0uab^-aqEH.-t@S}K{vb[*k^", "f2"]
