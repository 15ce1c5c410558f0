"""The document by which a conversion says, as long as it is not finished, that it is under way in a target's folder.

``_deltaberg/run-<uuid>.json`` is written before any other file and deleted after the last one, so one that is found tells
of a conversion that runs or that died. Every file of a conversion whose name is not fixed by the formats has the first
twelve digits of that uuid in its name, which is how a dead conversion's files are found.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.storage import NotFound, Storage, is_dead, process_mark

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAME: Final = re.compile(rf"run-(?P<run>{_UUID})\.json")
_PLAN: Final = re.compile(rf"(?:.*/)?plan-[0-9]+-(?P<run>{_UUID})\.json")
_BEGINNING: Final = re.compile(r"(?<![0-9a-f])([0-9a-f]{8})-?([0-9a-f]{4})")
_OWN_BITS: Final = 80
_LARGEST: Final = 1 << 16

_at_work: set[uuid.UUID] = set()
"""The conversions of this process that have not ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunId:
    """Names the files of one conversion (of all runs that carry one and the same replay on)."""

    value: uuid.UUID = field(default_factory=uuid.uuid4)

    @staticmethod
    def of_plan(plan_name: str | None) -> RunId | None:
        """The conversion whose plan document has this name; None for a name that deltaberg does not give."""
        match = None if plan_name is None else _PLAN.fullmatch(plan_name)
        return None if match is None else RunId(value=uuid.UUID(match["run"]))

    def new(self) -> uuid.UUID:
        """A uuid of this conversion that nothing else has."""
        return self.stamped(uuid.uuid4())

    def stamped(self, other: uuid.UUID) -> uuid.UUID:
        """A uuid of this conversion that is a function of another one."""
        low = (1 << _OWN_BITS) - 1
        return uuid.UUID(int=(self.value.int & ~low) | (other.int & low))

    def named(self, name: str) -> bool:
        """Whether a file or folder of this name is this conversion's."""
        own = self.value.hex[:12]
        return any(first + second == own for first, second in _BEGINNING.findall(name))

    @property
    def document_name(self) -> str:
        """The location of its document, relative to the target's folder."""
        return f"{HIDDEN_FOLDER}/run-{self.value}.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDocument:
    """What such a document says. written_ms: when, by the store's clock. goes_on: whether the run commits on top of a table
    that is there, so that it may do so at any time as long as it lives."""

    run: RunId
    to: TableFormat
    process: str
    location: str
    written_ms: int
    goes_on: bool = False

    @property
    def is_dead(self) -> bool | None:
        """Whether the conversion surely does not run any more; None where that cannot be determined on this machine."""
        if self.process == process_mark():
            return self.run.value not in _at_work
        return is_dead(self.process)


def put_run_document(storage: Storage, root: str, run: RunId, to: TableFormat, *, goes_on: bool = False) -> str:
    """Say that a conversion is under way; where that stands now. goes_on: as in ``RunDocument``."""
    location = join(root, run.document_name)
    content: dict[str, str | bool] = {"run": str(run.value), "to": to.value, "process": process_mark()}
    if goes_on:
        content["goes-on"] = True
    storage.put(location, json.dumps(content).encode())
    return location


def run_documents(storage: Storage, root: str, to: TableFormat) -> tuple[RunDocument, ...]:
    """The documents of all conversions to a format that are under way, or died, in a target's folder. Costs one listing
    where there are none.
    """
    found = []
    for file in list(storage.list(join(root, HIDDEN_FOLDER))):
        match = _NAME.fullmatch(file.location.rpartition("/")[2])
        if match is None or file.size > _LARGEST:
            continue
        try:
            value = json.loads(storage.get(file.location))
            if value["run"] == match["run"] and value["to"] == to.value:
                found.append(
                    RunDocument(
                        run=RunId(value=uuid.UUID(match["run"])),
                        to=to,
                        process=str(value["process"]),
                        location=file.location,
                        written_ms=file.modified_ms,
                        goes_on=value.get("goes-on") is True,
                    )
                )
        except (NotFound, ValueError, KeyError, TypeError):
            continue
    return tuple(found)


@contextmanager
def at_work(run: RunId) -> Iterator[None]:
    """While the context is active, other conversions of this process see that this one is not dead."""
    _at_work.add(run.value)
    try:
        yield
    finally:
        _at_work.discard(run.value)
