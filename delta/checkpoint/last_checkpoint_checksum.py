"""The MD5 of ``_last_checkpoint`` (protocol, JSON checksum): over a canonical text of its members."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from urllib.parse import quote

_UNRESERVED = "-._~"


def last_checkpoint_checksum(members: Mapping[str, object]) -> str:
    """The 32 hexadecimal digits; the top-level member ``checksum`` does not take part."""
    counted = {name: value for name, value in members.items() if name != "checksum"}
    return hashlib.md5(canonical_json(counted).encode(), usedforsecurity=False).hexdigest()


def canonical_json(value: object) -> str:
    """Path and value pairs, sorted by the bytes of their paths."""
    pairs = sorted(_pairs(value, ()), key=lambda pair: pair[0].encode())
    return ",".join(f"{path}={text}" for path, text in pairs)


def _pairs(value: object, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, member in value.items():
            yield from _pairs(member, (*path, _quoted(name)))
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield from _pairs(member, (*path, str(index)))
    else:
        yield "+".join(path), _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return f'"{quote(text, safe=_UNRESERVED)}"'
