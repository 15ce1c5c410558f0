"""The outside world of a transaction: the clock, random UUIDs, and how to wait."""

from __future__ import annotations

import time
import uuid as uuid_module
from collections.abc import Callable
from dataclasses import dataclass

_LONG_MAX = 2**63 - 1


def now_ms() -> int:
    """Milliseconds since 1970, by the system's clock."""
    return time.time_ns() // 1_000_000


def new_uuid() -> str:
    """A random UUID."""
    return str(uuid_module.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The system's own unless a caller passes others; ``wait_ms`` passes the time between attempts to commit."""

    now_ms: Callable[[], int] = now_ms
    new_uuid: Callable[[], str] = new_uuid
    wait_ms: Callable[[float], None] = lambda duration: time.sleep(duration / 1000)


def snapshot_id_of(uuid: str) -> int:
    """A positive snapshot id out of a random UUID (Appendix F): its halves combined, the sign bit cleared."""
    number = uuid_module.UUID(uuid).int
    return (number >> 64 ^ number) & _LONG_MAX
