"""Shortened bounds are still bounds."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.iceberg.manifest.bound_truncation import (
    truncate_lower_bytes,
    truncate_lower_text,
    truncate_upper_bytes,
    truncate_upper_text,
)

edges = st.sampled_from(["\x7f", "\u07ff", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "a", "\U0001f600"])
texts = st.lists(st.none() | st.text(edges | st.characters(codec="utf-8"), max_size=8))
lengths = st.integers(1, 5)


def test_the_last_code_point_is_incremented() -> None:
    values = pa.array(["abcd", "abc", "ab\U0010ffffd", "\ud7ff\ud7ff\ud7ff\ud7ff", "\U0010ffff" * 4, None, "é" * 4])
    assert truncate_upper_text(values, 3).to_pylist() == [
        "abd",
        "abc",
        "ac",
        "\ud7ff\ud7ff\ue000",
        None,
        None,
        "ééê",
    ]
    assert truncate_lower_text(values, 3).to_pylist()[:2] == ["abc", "abc"]


def test_the_last_byte_is_incremented() -> None:
    values = pa.array([b"abcd", b"ab", b"a\xff\xff\xff", b"\xff" * 4, None])
    assert truncate_upper_bytes(values, 3).to_pylist() == [b"abd", b"ab", b"b", None, None]
    assert truncate_lower_bytes(values, 3).to_pylist() == [b"abc", b"ab", b"a\xff\xff", b"\xff\xff\xff", None]


@given(texts, lengths, st.integers(0, 3))
def test_text_bounds_stay_on_their_side(values: list[str | None], length: int, offset: int) -> None:
    array = pa.array(values, pa.string()).slice(offset)
    lowers = truncate_lower_text(array, length).to_pylist()
    uppers = truncate_upper_text(array, length).to_pylist()
    for value, lower, upper in zip(array.to_pylist(), lowers, uppers, strict=True):
        if value is None:
            assert lower is None
            assert upper is None
            continue
        # UTF-8 bytes order as code points do.
        assert len(lower) <= length
        assert lower.encode() <= value.encode()
        if upper is None:
            assert set(value[:length]) == {"\U0010ffff"}
        else:
            assert len(upper) <= length
            assert upper.encode() >= value.encode()
        if len(value) <= length:
            assert lower == upper == value


@given(st.lists(st.none() | st.binary(max_size=8)), lengths, st.integers(0, 3))
def test_binary_bounds_stay_on_their_side(values: list[bytes | None], length: int, offset: int) -> None:
    array = pa.array(values, pa.binary()).slice(offset)
    lowers = truncate_lower_bytes(array, length).to_pylist()
    uppers = truncate_upper_bytes(array, length).to_pylist()
    for value, lower, upper in zip(array.to_pylist(), lowers, uppers, strict=True):
        if value is None:
            assert lower is None
            assert upper is None
            continue
        assert lower <= value
        if upper is None:
            assert set(value[:length]) == {0xFF}
        else:
            assert upper >= value
            assert len(upper) <= length or len(value) <= length
