"""Secrets in texts: found in arguments, and removed from everything that is printed, raised or written.

A URL may carry credentials: ``s3://KEY:SECRET@bucket``, ``https://user:password@host``, a signature or token in its query
(``sig=``, ``X-Amz-Signature=``, ``?token=``). Options of an object store carry them by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

HIDDEN: Final = "***"
"""Replaces a secret."""

_SECRET_NAME: Final = (
    r"[\w.\-]*(?:signature|token|secret|passw(?:or)?d|pwd|credentials?|accesskeyid|access[_\-]?key|account[_\-]?key|"
    r"api[_\-]?key|private[_\-]?key)[\w.\-]*|sig|sas|key"
)
QUERY_PATTERN: Final = rf"(?is)^[a-z][a-z0-9+.\-]*://[^?]*\?(?:.*[&;?])?(?:{_SECRET_NAME})="
"""A URL with a secret in its query, in the common part of Python's and RE2's expressions."""

_QUERY: Final = re.compile(rf"([?&;](?:{_SECRET_NAME})=)[^&;\s'\"<>()\[\]{{}}]*", re.IGNORECASE)
# A secret may hold slashes; ``host:8080/`` is a port.
_USER: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*://)[^\s@/:?#'\"]*:(?!\d{1,5}[/?#])[^\s@'\"]*@")
_TOKEN_USER: Final = re.compile(r"\b((?:https?|ftp|s3[an]?|gs)://)[^\s@/:?#'\"]+@", re.IGNORECASE)
_NAMED: Final = re.compile(
    r"((?:secret[_\-]?access[_\-]?key|session[_\-]?token|security[_\-]?token|account[_\-]?key|storage[_\-]?key|"
    r"access[_\-]?token|sas[_\-]?token|sas[_\-]?key|client[_\-]?secret|password)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&)\]}]+",
    re.IGNORECASE,
)
_AUTHORIZATION: Final = re.compile(
    r"(\bauthorization[\"']?\s*[=:]\s*[\"']?\w+\s+|\bbearer\s+)[^\s\"',;]{8,}", re.IGNORECASE
)
_KEY_ID: Final = re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)

_BEGINNINGS: Final = frozenset({b"PAR1", b"PARE", b"Obj\x01", b"PFA1", b"ORC", b"", b"\0\0\0\0"})

_SECRET_OPTION: Final = re.compile(r"secret|token|passw|credential|key|sas|signature|authorization", re.IGNORECASE)
_SHORTEST_SECRET: Final = 6

_known: set[str] = set()


def has_secret(location: str) -> bool:
    """Whether a URL carries a credential; the path of a ``file:`` URL is literal."""
    return (
        "://" in location
        and location[:5].lower() != "file:"
        and bool(_USER.search(location) or _TOKEN_USER.search(location) or re.search(QUERY_PATTERN, location))
    )


def hide_options(options: Mapping[str, str]) -> None:
    """From now on, no secret value of these storage options appears in a redacted text of this process."""
    for name, value in options.items():
        if isinstance(value, str) and len(value) >= _SHORTEST_SECRET and _SECRET_OPTION.search(name):
            _known.add(value)


def redacted(text: str) -> str:
    """The text without its secrets."""
    # The longest first: one secret may be a part of another.
    for value in sorted(_known, key=len, reverse=True):
        if value in text:
            text = text.replace(value, HIDDEN)
    if "://" in text:
        text = _USER.sub(rf"\1{HIDDEN}@", text)
        text = _TOKEN_USER.sub(rf"\1{HIDDEN}@", text)
        text = _QUERY.sub(rf"\1{HIDDEN}", text)
    if "=" in text or ":" in text:
        text = _NAMED.sub(rf"\1{HIDDEN}", text)
        text = _AUTHORIZATION.sub(rf"\1{HIDDEN}", text)
    text = _KEY_ID.sub(HIDDEN, text)
    return _PRIVATE_KEY.sub(HIDDEN, text) if "PRIVATE KEY" in text else text


def told_beginning(data: bytes) -> str:
    """A description of the first or last bytes of a file: its kind where the bytes are those of a known format, else
    nothing.

    Tampered metadata could name any file of the machine, so errors must not show its bytes.
    """
    return repr(data) if data in _BEGINNINGS else "other bytes"


def redacted_json(value: Any) -> Any:
    """A JSON value with every text redacted; keys are unchanged."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_json(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [redacted_json(each) for each in value]
    return value
