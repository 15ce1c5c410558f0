"""Row ids and last-updated sequence numbers, stored or inherited."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaberg.iceberg.errors import CorruptMetadata
from deltaberg.iceberg.snapshot_write.row_lineage import last_updated_sequence_numbers, row_ids

STORED = pa.array([None, 7, None], pa.int64())
POSITIONS = pa.array([4, 5, 6], pa.int64())


def test_a_stored_value_comes_before_the_inherited_one() -> None:
    assert row_ids(STORED, POSITIONS, 100).to_pylist() == [104, 7, 106]
    assert last_updated_sequence_numbers(STORED, 3, 100).to_pylist() == [3, 7, 3]


def test_without_a_first_row_id_both_are_null_whatever_is_stored() -> None:
    assert row_ids(STORED, POSITIONS, None).to_pylist() == [None] * 3
    assert last_updated_sequence_numbers(STORED, 3, None).to_pylist() == [None] * 3


def test_a_row_id_beyond_64_bits_is_not_wrapped_around() -> None:
    with pytest.raises(CorruptMetadata, match="leaves no room"):
        row_ids(STORED, POSITIONS, 2**63 - 2)
