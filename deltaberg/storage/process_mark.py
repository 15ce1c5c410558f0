"""A short text that stands for a running process, by which another process can tell that it has died."""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from hashlib import sha256
from typing import Final

PROCESS_MARK: Final = r"[0-9a-f]{12}-[0-9a-f]{1,16}-[0-9a-f]{1,16}"
"""The form of a mark: machine, process id, when the process began. It names neither host nor user."""

_MARK: Final = re.compile(PROCESS_MARK)


def process_mark() -> str:
    """The mark of this process; no other process that ever ran on any machine has it."""
    return _mark(os.getpid())


def is_dead(mark: str) -> bool | None:
    """Whether the process of a mark has surely ended; None where that cannot be determined here, as for another
    machine.
    """
    if not _MARK.fullmatch(mark):
        return None
    machine, process, begun = mark.split("-")
    if machine != _machine() or sys.platform == "win32":
        return None
    process_id = int(process, 16)
    try:
        os.kill(process_id, 0)  # signal 0 only asks whether there is such a process
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    now = _begun(process_id)
    return "0" not in (now, begun) and now != begun


@functools.lru_cache(maxsize=4)
def _mark(process_id: int) -> str:
    return f"{_machine()}-{process_id:x}-{_begun(process_id)}"


@functools.cache
def _machine() -> str:
    """The machine since its last start, and the set of process ids that is visible here (each container has its own)."""
    known = [platform.node(), _read("/proc/sys/kernel/random/boot_id")]
    try:
        known.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        known.append("")
    return sha256("|".join(known).encode()).hexdigest()[:12]


def _begun(process_id: int) -> str:
    """When a process began, as the system counts; "0" where it does not say."""
    fields = _read(f"/proc/{process_id}/stat").rpartition(")")[2].split()
    return f"{int(fields[19]):x}" if len(fields) > 19 and fields[19].isdecimal() else "0"


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
