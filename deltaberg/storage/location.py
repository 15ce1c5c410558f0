"""Locations: how a path or URL of the metadata names one file, and where a relocation says that it really is.

Three spellings name a local file: ``/a/b``, ``file:/a/b`` and ``file:///a/b`` (``file://localhost/a/b`` too). Their
path is literal: ``%41`` in it is three characters of a file name (Iceberg section "Paths in Metadata" gives paths no
encoding, and Delta decodes ``add.path`` before it asks for a file).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.errors import UsageError
from deltaberg.redaction import has_secret
from deltaberg.storage.errors import StorageError, UnusableLocation

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_FILE_SCHEME = r"(?i)^file:(?:///+|//localhost/+|/([^/]|$))"
_FILE_URL = re.compile(_FILE_SCHEME)
_USUAL_SCHEMES = ("s3", "gs", "abfss", "abfs", "hdfs", "az", "memory")
_SAME_STORE = {"s3a": "s3", "s3n": "s3"}


def scheme_of(location: str) -> str | None:
    """The URL scheme in lower case, or None for a path."""
    match = _SCHEME.match(location)
    return match.group(1).lower() if match else None


def absolute_location(text: str) -> str:
    """A location as a user typed it; a relative local path is taken from the working directory.

    Raises UsageError for a URL with credentials in it.
    """
    refuse_credentials(text)
    if scheme_of(text) is not None and not os.path.exists(text):
        return text
    return os.path.abspath(text)


def refuse_credentials(location: str) -> None:
    """Raise UsageError for a URL with credentials in it: metadata, plans and logs would repeat it."""
    if has_secret(location):
        raise UsageError(
            f"Cannot use the location {location}: it carries credentials, which metadata and logs would repeat; give them by "
            "the environment or by storage options, and the URL without them"
        )


def canonical_location(location: str) -> str:
    """One spelling for each file: a local path without scheme, ``s3://`` for its aliases; the rest unchanged.

    Raises UnusableLocation for text that cannot name a file: relative paths, NUL, half a surrogate pair, a remote host in a ``file:`` URL.
    """
    if "\0" in location or not location or not _is_text(location):
        raise UnusableLocation(f"Cannot use the location {location!r}: it cannot name a file (expected a path or URL)")
    if location.startswith("/"):
        return location
    scheme = scheme_of(location)
    if scheme is None:
        raise UnusableLocation(
            f"Cannot use the location {location!r}: it is relative (expected an absolute path or a URL with a scheme)",
            path=location,
        )
    if scheme == "file":
        path, count = _FILE_URL.subn(r"/\1", location)
        if not count:
            raise UnusableLocation(
                f"Cannot use the location {location!r}: the file URL names another host or a relative path "
                "(expected file:/path or file:///path)",
                path=location,
            )
        return path
    return _SAME_STORE.get(scheme, scheme) + location[len(scheme) :]


class Relocation:
    """A map of location prefixes, for tables that were copied since they were written.

    A prefix matches whole path segments, whichever spelling of a local path either side uses; the longest one wins
    and is applied once. Some writers left locations that name no file by themselves (``data/t``, ``file://data/t``):
    such a prefix matches as text, but for a leading ``./``.
    """

    __slots__ = ("_prefixes",)

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        moved = {
            _without_slash(_prefix(old)): _without_slash(canonical_location(absolute_location(new)))
            for old, new in prefixes.items()
        }
        self._prefixes = tuple(sorted(moved.items(), key=lambda item: len(item[0]), reverse=True))

    @property
    def targets(self) -> tuple[str, ...]:
        """Where files were moved to, as prefixes."""
        return tuple(new for _, new in self._prefixes)

    def resolve(self, location: str) -> str:
        """Where a location really is. Raises StorageError like ``canonical_location``."""
        place = self._place(location)
        for old, new in self._prefixes:
            if _inside(place, old):
                return (new + place[len(old) :]) or "/"
        return place

    def _place(self, location: str) -> str:
        """The canonical location; the text itself where it is no location but a prefix of the relocation matches it."""
        try:
            return canonical_location(location)
        except StorageError:
            text = _literal(location)
            if any(_inside(text, old) for old, _ in self._prefixes):
                return text
            raise

    def resolve_many(self, locations: pa.Array) -> pa.Array:
        """``resolve`` for a string array; nulls stay null."""
        locations = locations.cast(pa.string())
        plain = pc.starts_with(locations, "/")
        if not _all_true(plain) or _any_true(pc.match_substring(locations, "\0")):
            locations = self._canonical_many(locations, plain)
        result = locations
        done = pa.nulls(0)
        for index, (old, new) in enumerate(self._prefixes):
            inside = pc.or_(pc.equal(locations, old), pc.starts_with(locations, old + "/"))
            applies = inside if index == 0 else pc.and_not(inside, done)
            if _any_true(applies):
                moved = _with_beginning(locations, len(old.encode()), new)
                result = pc.if_else(applies, pc.if_else(pc.equal(moved, ""), "/", moved), result)
            done = inside if index == 0 else pc.or_(done, inside)
        return result

    def _canonical_many(self, locations: pa.Array, plain: pa.Array) -> pa.Array:
        spelled = _usual_spellings(locations)
        return self._by_pattern(locations, plain) if spelled is None else spelled

    def _by_pattern(self, locations: pa.Array, plain: pa.Array) -> pa.Array:
        """Every spelling there is; the last resort takes them one by one."""
        file_url = pc.match_substring_regex(locations, _FILE_SCHEME)
        locations = pc.replace_substring_regex(locations, _FILE_SCHEME, r"/\1")
        for alias, scheme in _SAME_STORE.items():
            locations = pc.replace_substring_regex(locations, f"(?i)^{alias}:", f"{scheme}:")
        known = pc.or_(pc.or_(plain, file_url), pc.match_substring_regex(locations, "^[a-z][a-z0-9+.-]*:"))
        doubtful = pc.or_(pc.invert(known), pc.match_substring_regex(locations, r"^file:|\x00"))
        if not _any_true(doubtful):
            return locations
        return pa.array(
            [None if location is None else self._place(location) for location in locations.to_pylist()],
            pa.string(),
        )


def _usual_spellings(locations: pa.Array) -> pa.Array | None:
    """The canonical spellings, without a regular expression; None when some are not among the usual ones."""
    for url, path_start in (("file:///", 7), ("file:/", 5)):
        spelled = pc.starts_with(locations, url)
        if _any_true(spelled):
            locations = pc.if_else(spelled, _with_beginning(locations, path_start, ""), locations)
    for alias, scheme in _SAME_STORE.items():
        spelled = pc.starts_with(locations, f"{alias}://")
        if _any_true(spelled):
            locations = pc.if_else(spelled, _with_beginning(locations, len(alias), scheme), locations)
    known = pc.starts_with(locations, "/")
    for scheme in _USUAL_SCHEMES:
        if _all_true(known):
            break
        known = pc.or_(known, pc.starts_with(locations, f"{scheme}://"))
    # Two slashes: file://host/path, which is refused elsewhere, or file:////path. Others are paths in their own right.
    unusual = pc.or_(pc.invert(known), pc.starts_with(locations, "//"))
    if _any_true(unusual) or _any_true(pc.match_substring(locations, "\0")):
        return None
    return locations


def _with_beginning(texts: pa.Array, length: int, beginning: str) -> pa.Array:
    """The texts with another beginning in place of their first ``length`` bytes."""
    replaced = pc.binary_replace_slice(texts.cast(pa.binary()), start=0, stop=length, replacement=beginning.encode())
    # Where a text is shorter, or cut inside a character, the caller has no use for the result.
    return replaced.view(pa.string())


def _is_text(location: str) -> bool:
    try:
        location.encode()
    except UnicodeEncodeError:
        return False
    return True


def _prefix(old: str) -> str:
    try:
        return canonical_location(old)
    except StorageError:
        text = _literal(old)
        if not text.strip("/") or "\0" in text or not _is_text(text):
            raise
        return text


def _literal(location: str) -> str:
    return location.removeprefix("./")


def _inside(place: str, folder: str) -> bool:
    return place.startswith(folder) and (len(place) == len(folder) or place[len(folder)] == "/")


def _without_slash(place: str) -> str:
    return place.rstrip("/")


def _any_true(mask: pa.Array) -> bool:
    return cast(bool, pc.any(mask, min_count=0).as_py())


def _all_true(mask: pa.Array) -> bool:
    return cast(bool, pc.all(mask, min_count=0).as_py())
