"""Locations in metadata: absolute and, from version 4 on, relative ones (section "Paths in Metadata").

A location is absolute when it starts with a URI scheme. A relative one is resolved by joining it to the table's
location with one slash and nothing else; ``.`` and ``..`` mean nothing.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_SCHEME_RE2 = r"^[A-Za-z][A-Za-z0-9+.\-]*:"


def has_scheme(location: str) -> bool:
    """True when a location is absolute."""
    return _SCHEME.match(location) is not None


def resolve_location(table_location: str, location: str) -> str:
    """The absolute form of a location that version 4 metadata holds."""
    return location if has_scheme(location) else f"{table_location}/{location}"


def relativize_location(table_location: str, location: str) -> str:
    """The form in which version 4 metadata may hold an absolute location: relative below the table's location.

    A rest that would itself look like a scheme stays absolute, since it could not be read back.
    """
    prefix = f"{table_location}/"
    if not location.startswith(prefix):
        return location
    rest = location[len(prefix) :]
    return location if not rest or has_scheme(rest) else rest


def qualify_location(table_location: str, location: str) -> str:
    """The absolute form of a location in a manifest from before version 4, which may lack the scheme.

    Below the table it takes the prefix that the table's location has before the same path (``/wh/t/x`` in
    ``hdfs://wh/t`` is ``hdfs://wh/t/x``), elsewhere the table's scheme alone.
    """
    scheme = _SCHEME.match(table_location)
    if scheme is None or has_scheme(location):
        return location
    bare = table_location[scheme.end() :]
    for folder in (bare, bare[1:], bare[2:]):
        if folder.startswith("/") and location.startswith(f"{folder}/"):
            return f"{table_location}{location[len(folder) :]}"
    return f"{scheme[0]}{location}"


def resolve_locations(table_location: str, locations: pa.Array) -> pa.Array:
    """``resolve_location`` for a string array."""
    absolute = pc.match_substring_regex(locations, _SCHEME_RE2)
    joined = pc.binary_join_element_wise(pa.scalar(table_location), locations, "/")
    return pc.if_else(absolute, locations, joined)


def relativize_locations(table_location: str, locations: pa.Array) -> pa.Array:
    """``relativize_location`` for a string array."""
    prefix = f"{table_location}/"
    rest = pc.utf8_slice_codeunits(locations, len(prefix))
    below = pc.and_(
        pc.starts_with(locations, prefix),
        pc.and_not(pc.greater(pc.binary_length(rest), 0), pc.match_substring_regex(rest, _SCHEME_RE2)),
    )
    return pc.if_else(below, rest, locations)


def with_file_scheme(locations: pa.Array) -> pa.Array:
    """Absolute local paths of a string array as ``file:`` URLs, which version 4 needs; everything else unchanged."""
    local = pc.starts_with(locations, "/")
    return pc.if_else(local, pc.binary_join_element_wise("file://", locations, ""), locations)
