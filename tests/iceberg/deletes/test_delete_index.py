"""Which delete entries reach which data files: the scope rules of Scan Planning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.iceberg.deletes.delete_index import FILE_PATH_ID, DeleteIndex, Scope
from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.manifest.data_file import EXISTING, data_file_schema

FLAT = pa.struct([])
BY_DOUBLE = pa.struct([("d", pa.float64())])
SPECS = {0: FLAT, 1: BY_DOUBLE, 2: BY_DOUBLE}
NAN = float("nan")


def batch(spec_id: int, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    filled = [
        {
            "status": EXISTING,
            "content": 0,
            "file_format": "parquet",
            "spec_id": spec_id,
            "partition": {},
            "record_count": 1,
            "file_size_in_bytes": 1,
            "sequence_number": 1,
            **row,
        }
        for row in rows
    ]
    return pa.RecordBatch.from_pylist(filled, schema=data_file_schema(SPECS[spec_id]))


def index(*batches: pa.RecordBatch) -> DeleteIndex:
    return DeleteIndex(batches, unpartitioned_spec_ids=frozenset({0}))


def found(deletes: DeleteIndex, data: pa.RecordBatch) -> list[list[str]]:
    """The paths of the delete files that reach each data file."""
    (matches,) = deletes.match([data])
    ranges = {
        Scope.VECTOR: matches.vector,
        Scope.FILE: matches.file,
        Scope.PARTITION: matches.partition,
        Scope.EQUALITY: matches.equality,
        Scope.GLOBAL_EQUALITY: matches.global_equality,
    }
    return [
        sorted(
            path
            for scope, places in ranges.items()
            for path in deletes.entries(scope)["file_path"].to_pylist()[places.start[row] : places.stop[row]]
        )
        for row in range(data.num_rows)
    ]


def bounds(lower: bytes, upper: bytes) -> dict[str, Any]:
    return {"lower_bounds": [(FILE_PATH_ID, lower)], "upper_bounds": [(FILE_PATH_ID, upper)]}


def test_without_deletes_nothing_is_found() -> None:
    data = batch(0, [{"file_path": "a"}])
    assert found(index(), data) == [[]]
    (matches,) = index().match([data])
    assert matches.untouched.tolist() == [True]


def test_equal_path_bounds_tell_the_one_data_file() -> None:
    deletes = index(
        batch(
            0,
            [
                {"file_path": "one", "content": 1, **bounds(b"a", b"a")},
                {"file_path": "many", "content": 1, **bounds(b"a", b"b")},
                {"file_path": "unknown", "content": 1},
            ],
        )
    )
    assert deletes.entries(Scope.FILE)["file_path"].to_pylist() == ["one"]
    data = batch(0, [{"file_path": "a"}, {"file_path": "b"}])
    assert found(deletes, data) == [["many", "one", "unknown"], ["many", "unknown"]]


def test_path_bounds_of_equality_deletes_mean_nothing() -> None:
    deletes = index(
        batch(0, [{"file_path": "e", "content": 2, "equality_ids": [1], "sequence_number": 2, **bounds(b"a", b"a")}])
    )
    assert found(deletes, batch(0, [{"file_path": "b"}])) == [["e"]]


def test_partition_values_are_compared_by_their_bits() -> None:
    other_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    values = [0.0, -0.0, NAN, None, 1.0]
    deletes = index(batch(1, [{"file_path": f"{value}", "content": 1, "partition": {"d": value}} for value in values]))
    data = batch(1, [{"file_path": "x", "partition": {"d": value}} for value in [0.0, -0.0, other_nan, None, 2.0]])
    assert found(deletes, data) == [["0.0"], ["-0.0"], ["nan"], ["None"], []]


def test_equal_values_of_another_spec_are_another_partition() -> None:
    deletes = index(batch(1, [{"file_path": "p", "content": 1, "partition": {"d": 1.0}}]))
    assert found(deletes, batch(2, [{"file_path": "x", "partition": {"d": 1.0}}])) == [[]]


def test_a_vector_in_another_partition_is_refused() -> None:
    vector = {
        "file_path": "v",
        "file_format": "puffin",
        "content": 1,
        "referenced_data_file": "x",
        "content_offset": 4,
        "content_size_in_bytes": 40,
    }
    deletes = index(batch(1, [{**vector, "partition": {"d": 1.0}}]))
    assert found(deletes, batch(1, [{"file_path": "x", "partition": {"d": 1.0}}])) == [["v"]]
    with pytest.raises(CorruptMetadata, match="its partition differs from the data file's"):
        deletes.match([batch(1, [{"file_path": "x", "partition": {"d": 2.0}}])])
    with pytest.raises(CorruptMetadata, match="its partition differs from the data file's"):
        deletes.match([batch(2, [{"file_path": "x", "partition": {"d": 1.0}}])])


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({"content": 0}, "content"),
        ({"content": 1, "sequence_number": None}, "sequence_number"),
        ({"content": 2}, "equality_ids"),
        ({"content": 2, "equality_ids": []}, "equality_ids"),
        ({"content": 2, "file_format": "puffin", "equality_ids": [1]}, "content"),
    ],
)
def test_entries_that_contradict_themselves_are_refused(row: dict[str, Any], field: str) -> None:
    with pytest.raises(CorruptMetadata) as caught:
        index(batch(0, [{"file_path": "bad", **row}]))
    assert (caught.value.path, caught.value.field) == ("bad", field)


def test_a_data_file_without_sequence_number_is_refused() -> None:
    deletes = index(batch(0, [{"file_path": "d", "content": 1}]))
    with pytest.raises(CorruptMetadata, match="its data sequence number is null"):
        deletes.match([batch(0, [{"file_path": "x", "sequence_number": None}])])


VALUES = st.sampled_from([None, 0.0, -0.0, NAN, 1.0])
DATA = st.tuples(st.sampled_from([0, 1, 2]), VALUES, st.integers(0, 4), st.sampled_from("abc"))
DELETES = st.tuples(
    st.sampled_from([0, 1, 2]), VALUES, st.integers(0, 4), st.sampled_from(["position", "equality", "a", "b", "z"])
)


def same(one: float | None, two: float | None) -> bool:
    return repr(one) == repr(two)


@settings(max_examples=200, deadline=None)
@given(data=st.lists(DATA, max_size=8), deletes=st.lists(DELETES, max_size=8))
def test_the_index_agrees_with_the_rules_applied_one_by_one(data: list[Any], deletes: list[Any]) -> None:
    def entry(number: int, spec: int, value: float | None, sequence: int, kind: str) -> dict[str, Any]:
        return {
            "file_path": f"{number}",
            "content": 2 if kind == "equality" else 1,
            "equality_ids": [1] if kind == "equality" else None,
            "partition": {} if spec == 0 else {"d": value},
            "sequence_number": sequence,
            "referenced_data_file": kind if len(kind) == 1 else None,
        }

    batches = [batch(row[0], [entry(number, *row)]) for number, row in enumerate(deletes)]
    built = index(*batches)
    files = [
        batch(spec, [{"file_path": name, "partition": {} if spec == 0 else {"d": value}, "sequence_number": sequence}])
        for spec, value, sequence, name in data
    ]
    for (spec, value, sequence, name), file in zip(data, files, strict=True):
        expected = []
        for number, (d_spec, d_value, d_sequence, kind) in enumerate(deletes):
            partition = d_spec == spec and (spec == 0 or same(d_value, value))
            if kind == "equality":
                applies = sequence < d_sequence and (partition or d_spec == 0)
            else:
                applies = sequence <= d_sequence and partition and kind in ("position", name)
            if applies:
                expected.append(f"{number}")
        assert found(built, file) == [sorted(expected)]
    assert len(built.match(files)) == len(files)
