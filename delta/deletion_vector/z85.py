"""Z85, the Base85 of deletion vector descriptors (ZeroMQ RFC 32), over whole columns at once.

Four bytes, big endian, become five characters. Lengths that are not multiples of four are padded with zero bytes by the
writer; the descriptor's ``sizeInBytes`` says how many of the decoded bytes count.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_ALPHABET = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_INVALID = 255
_CHARACTERS = np.frombuffer(_ALPHABET, dtype=np.uint8)
_VALUES = np.full(256, _INVALID, dtype=np.uint8)
_VALUES[_CHARACTERS] = np.arange(85, dtype=np.uint8)
_POWERS = np.array([85**4, 85**3, 85**2, 85, 1], dtype=np.uint64)

_LARGEST_WORD = np.uint64(0xFFFFFFFF)


def encode_rows(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Encode a matrix of bytes (rows, 4k) into one of characters (rows, 5k)."""
    rows, width = data.shape
    words = np.ascontiguousarray(data).view(">u4").astype(np.uint64)
    digits = (words[:, :, None] // _POWERS[None, None, :]) % np.uint64(85)
    characters: npt.NDArray[np.uint8] = _CHARACTERS[digits].reshape(rows, width // 4 * 5)
    return characters


def decode_rows(text: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Decode a matrix of characters (rows, 5k) into one of bytes (rows, 4k).

    Raises ValueError for a character outside the alphabet or a group beyond 32 bits.
    """
    rows, width = text.shape
    values = _VALUES[text]
    if (values == _INVALID).any():
        raise ValueError("a character outside the Z85 alphabet")
    words = values.reshape(rows, width // 5, 5).astype(np.uint64) @ _POWERS
    if (words > _LARGEST_WORD).any():
        raise ValueError("a Z85 group beyond 32 bits")
    return words.astype(">u4").view(np.uint8).reshape(rows, width // 5 * 4)


def encode(data: bytes) -> str:
    """Encode bytes, padded with zeros to a multiple of four."""
    padded = data + bytes(-len(data) % 4)
    matrix = np.frombuffer(padded, dtype=np.uint8).reshape(1, -1)
    return encode_rows(matrix).tobytes().decode("ascii")


def decode(text: str) -> bytes:
    """Decode characters; the answer's length is a multiple of four. Raises ValueError for anything but Z85."""
    if len(text) % 5:
        raise ValueError(f"{len(text)} characters, not a multiple of 5")
    try:
        raw = text.encode("ascii")
    except UnicodeEncodeError as error:
        raise ValueError("a character outside the Z85 alphabet") from error
    return decode_rows(np.frombuffer(raw, dtype=np.uint8).reshape(1, -1)).tobytes()
