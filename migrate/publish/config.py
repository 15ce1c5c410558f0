"""What ``publish`` keeps up to date: the tables, and how they are looked after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from deltaberg.migrate.source import TableFormat
from deltaberg.translate.options import ConvertOptions

INTERVAL_S: Final = 10.0
LEAST_TERM_S: Final = 5.0
"""Below it, a store that tells times by the second could not tell a lease that is held from one that has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """One table to keep up to date; locations are absolute. options: None leaves them as the target was created with."""

    name: str
    source: str
    to: TableFormat
    target: str | None = None
    ref: str | None = None
    squash: bool = False
    interval_s: float = INTERVAL_S
    options: ConvertOptions | None = None
    relocate: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    allow_locations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherConfig:
    """All that ``Publisher`` needs.

    concurrency: how many tables are looked at at once. lease_s: after which the lease of a publisher that is gone passes on.
    recheck_s: how often a table is compared with its target although its source shows nothing new. max_backoff_s: the
    longest wait after failures. notes: keys of the file that have no meaning here, in a line each.
    """

    tables: tuple[PublishedTable, ...]
    concurrency: int = 4
    lease_s: float = 60.0
    recheck_s: float = 3600.0
    max_backoff_s: float = 300.0
    notes: tuple[str, ...] = ()
