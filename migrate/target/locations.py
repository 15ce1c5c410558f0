"""The locations of files as a target's metadata is to state them.

Relocation counts: a table that was copied gets a target that names the copies. Otherwise a location keeps the spelling
that its source gave it (``s3a://`` stays), except ``file:`` URLs, which become plain paths: every reader accepts those.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltaberg.storage import Storage

_ALIAS = r"^s3[an]:"


def real_locations(storage: Storage, locations: pa.Array) -> pa.Array:
    """The locations to write into a target's metadata, one for each."""
    resolved = storage.resolve_many(locations)
    aliased = pc.match_substring_regex(locations, _ALIAS)
    if not pc.any(aliased, min_count=0).as_py():
        return resolved
    unmoved = pc.and_(aliased, pc.equal(pc.replace_substring_regex(locations, _ALIAS, "s3:"), resolved))
    return pc.if_else(unmoved, locations, resolved)


def real_location(storage: Storage, location: str) -> str:
    """``real_locations`` for one location."""
    return str(real_locations(storage, pa.array([location], pa.string()))[0].as_py())


def join(folder: str, *names: str) -> str:
    """A location below a folder."""
    return "/".join((folder.rstrip("/"), *names))
