"""Codes that a conversion gives after its commit."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_DELTA: Final = ("delta",)

CHECKPOINT_NOT_WRITTEN: Final = Code(
    name="checkpoint-not-written",
    severity=Severity.WARNING,
    to=_DELTA,
    reason="The Delta version is committed and whole, but its checkpoint could not be written, so readers parse the "
    "commit's JSON. Reported by convert under `warnings`, never by plan.",
    remedy="Nothing has to be done: the next writer makes one. Find out why the store refused the file, and "
    "checkpoint the table with any engine if it is large.",
    example="a disk that is full right after the commit",
)
