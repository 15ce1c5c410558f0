"""From the text of the shared options to the keywords of the Python API."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from deltaberg.cli.options import FormatName
from deltaberg.errors import UsageError

if TYPE_CHECKING:
    from deltaberg.api import Where


def where(
    *,
    version: int | None = None,
    snapshot_id: int | None = None,
    ref: str | None = None,
    as_of: str | None = None,
    relocate: Iterable[str] | None = None,
    allow_location: Iterable[str] | None = None,
    format: FormatName | None = None,
) -> Where:
    """The keywords that choose one state of one table. Raises UsageError where two options choose the state."""
    chosen = {"--version": version, "--snapshot-id": snapshot_id, "--ref": ref, "--as-of": as_of}
    given = [option for option, value in chosen.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"Cannot use {' and '.join(given)} together: each chooses the state of the table; give one")
    return {
        "version": version,
        "snapshot_id": snapshot_id,
        "ref": ref,
        "as_of": as_of,
        "relocate": prefixes(relocate or ()),
        "allow_locations": tuple(allow_location or ()),
        "format": format,
    }


def prefixes(pairs: Iterable[str]) -> dict[str, str]:
    """``OLD=NEW`` texts as a map. Raises UsageError where one has no ``=``, an empty side, or OLD comes twice."""
    result: dict[str, str] = {}
    for pair in pairs:
        old, _, new = pair.partition("=")
        if not old or not new:
            raise UsageError(f"Cannot relocate by {pair!r}: expected OLD=NEW, two locations")
        if result.setdefault(old, new) != new:
            raise UsageError(f"Cannot relocate {old} to both {result[old]} and {new}: give it once")
    return result


def type_mappings(pairs: Iterable[str]) -> dict[str, str]:
    """``TYPE=TYPE`` texts of ``--map`` as a map. Raises UsageError where one has no ``=`` or an empty side."""
    result: dict[str, str] = {}
    for pair in pairs:
        source, _, target = (part.strip().lower() for part in pair.partition("="))
        if not source or not target:
            raise UsageError(f"Cannot map types by {pair!r}: expected such as uuid=string")
        if result.setdefault(source, target) != target:
            raise UsageError(f"Cannot map {source} to both {result[source]} and {target}: give it once")
    return result


_SIZE = re.compile(r"(\d+)\s*(?:([KMGT]?)(i?)B?)", re.IGNORECASE)


def byte_count(text: str) -> int:
    """``128MB``, ``64 MiB`` or plain bytes. Raises UsageError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"Cannot take {text!r} as a size: expected such as 128MB or 64MiB")
    number, unit, binary = found.groups()
    base = 1024 if binary else 1000
    return int(number) * int(base ** " KMGT".index(unit.upper() or " "))
