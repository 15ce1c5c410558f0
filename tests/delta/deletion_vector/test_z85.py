"""Z85 against the examples of its own specification and of the Delta protocol."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaberg.delta.deletion_vector import z85


def test_the_example_of_rfc_32() -> None:
    assert z85.encode(bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])) == "HelloWorld"
    assert z85.decode("HelloWorld") == bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])


def test_the_uuid_of_the_protocols_first_example() -> None:
    assert z85.decode("^-aqEH.-t@S}K{vb[*k^").hex() == "d2c639aa8816431aaaf6d3fe2512ff61"


@given(st.binary(max_size=200))
def test_decoding_returns_what_was_encoded_with_its_padding(data: bytes) -> None:
    decoded = z85.decode(z85.encode(data))
    assert decoded[: len(data)] == data
    assert decoded[len(data) :] == bytes(-len(data) % 4)


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20))
def test_rows_are_encoded_and_decoded_as_single_values_are(values: list[bytes]) -> None:
    matrix = np.frombuffer(b"".join(values), dtype=np.uint8).reshape(-1, 16)
    text = z85.encode_rows(matrix)
    assert [row.tobytes().decode() for row in text] == [z85.encode(value) for value in values]
    assert (z85.decode_rows(text) == matrix).all()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1234", "4 characters, not a multiple of 5"),
        ('"abcd', "outside the Z85 alphabet"),
        ("abc é", "outside the Z85 alphabet"),
        ("#####", "beyond 32 bits"),
    ],
)
def test_anything_else_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        z85.decode(text)
