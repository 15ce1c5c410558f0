"""Every order of cleaners, each cleaner being run once in each state that it can see.

The states form a graph: two orders that lead to the same files go on together from there. A state is every file with a digest
of what it says: a Delta commit without its ``commitInfo``, JSON without moments of commits, a checkpoint without the order of
its rows. All files are dated back after every step, so their age makes no state of its own, and Hadoop's own checksum files,
which object stores do not have, are deleted.

A cleaner that ran on a state of the files that it sees does the same on any other state with the same ones. That it changes
nothing that it does not see is asserted whenever it runs.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

# A table that came out of an archive without dates: older than any retention but that of the guard.
LONG_AGO: Final = 20_000 * 24 * 3600

_COMMIT: Final = re.compile(r"\d{20}\.json")
_MOMENTS: Final = {"last-updated-ms", "timestamp-ms", "txnId", "inCommitTimestampOpt", "checksum", "sizeInBytes"}

State = Mapping[str, str]
"""The digest of each file, by its path below the base folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaner:
    """run: raises what the engine raises. sees: whether it reads, lists or deletes a file, by the path below the base."""

    name: str
    run: Callable[[], None]
    sees: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    removed: frozenset[str]
    written: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Orders:
    """Walks them below ``base``; ``check`` is called once in each distinct state, with it on the disk.

    runs: how often a cleaner ran. orders: how many complete orders the walk covers. ends: the states after all cleaners.
    """

    base: Path
    cleaners: tuple[Cleaner, ...]
    check: Callable[[str], None]
    forget: Callable[[], None]
    runs: int = 0
    orders: int = 0
    states: dict[frozenset[tuple[str, str]], State] = field(default_factory=dict)
    ends: list[State] = field(default_factory=list)
    _contents: dict[tuple[str, str], bytes] = field(default_factory=dict)
    _effects: dict[tuple[str, frozenset[tuple[str, str]]], _Effect] = field(default_factory=dict)
    _on_disk: State = field(default_factory=dict)

    def walk(self) -> None:
        date_back(self.base)
        first = self._take("before any cleaner")
        level: dict[tuple[frozenset[str], frozenset[tuple[str, str]]], tuple[int, str]] = {}
        level[(frozenset(), first)] = (1, "")
        for _ in self.cleaners:
            following: dict[tuple[frozenset[str], frozenset[tuple[str, str]]], tuple[int, str]] = {}
            for (done, key), (ways, path) in level.items():
                for cleaner in self.cleaners:
                    if cleaner.name not in done:
                        after = f"{path} {cleaner.name}".strip()
                        node = (done | {cleaner.name}, self._after(key, cleaner, after))
                        known, first_path = following.get(node, (0, after))
                        following[node] = (known + ways, first_path)
            level = following
        self.orders = sum(ways for ways, _ in level.values())
        self.ends = [self.states[key] for key in dict.fromkeys(key for _, key in level)]

    def restore(self, state: State) -> None:
        """Make the folder hold that state again, at the same place."""
        for path in self._on_disk.keys() - state.keys():
            (self.base / path).unlink(missing_ok=True)
        for path, digest in state.items():
            if self._on_disk.get(path) != digest:
                (self.base / path).parent.mkdir(parents=True, exist_ok=True)
                (self.base / path).write_bytes(self._contents[path, digest])
        self._on_disk = state
        date_back(self.base)
        self.forget()

    def _after(self, key: frozenset[tuple[str, str]], cleaner: Cleaner, path: str) -> frozenset[tuple[str, str]]:
        state = self.states[key]
        seen = (cleaner.name, frozenset(each for each in key if cleaner.sees(each[0])))
        if seen not in self._effects:
            self.restore(state)
            cleaner.run()
            self.runs += 1
            date_back(self.base)
            self.forget()
            found = self._read()
            removed = state.keys() - found.keys()
            written = {name: digest for name, digest in found.items() if state.get(name) != digest}
            unseen = [name for name in (*removed, *written) if not cleaner.sees(name)]
            assert not unseen, f"{cleaner.name} after {path!r} changed what it cannot see: {unseen}"
            self._effects[seen] = _Effect(removed=frozenset(removed), written=tuple(sorted(written.items())))
        effect = self._effects[seen]
        result = {name: digest for name, digest in state.items() if name not in effect.removed}
        result.update(effect.written)
        reached = frozenset(result.items())
        if reached not in self.states:
            self.states[reached] = result
            self.restore(result)
            self.check(path)
        return reached

    def _take(self, path: str) -> frozenset[tuple[str, str]]:
        state = self._read()
        key = frozenset(state.items())
        self.states[key] = state
        self.check(path)
        return key

    def _read(self) -> State:
        state = {}
        for path in self.base.rglob(".*.crc"):
            path.unlink()
        for path in sorted(each for each in self.base.rglob("*") if each.is_file()):
            name, content = str(path.relative_to(self.base)), path.read_bytes()
            state[name] = digest_of(path, content)
            self._contents.setdefault((name, state[name]), content)
        self._on_disk = state
        return state


def digest_of(path: Path, content: bytes) -> str:
    """Of what a file says; not of when it was written nor by which transaction."""
    if _COMMIT.fullmatch(path.name):
        actions = [json.loads(line) for line in content.splitlines()]
        said: Any = [action for action in actions if "commitInfo" not in action]
    elif path.name.endswith(".checkpoint.parquet"):
        said = sorted(json.dumps(row, sort_keys=True, default=str) for row in pq.read_table(path).to_pylist())
    elif path.name.endswith((".json", ".crc")) or path.name == "_last_checkpoint":
        said = _timeless(json.loads(content))
    else:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in _MOMENTS}
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    return value


def date_back(folder: Path, seconds: int = LONG_AGO) -> None:
    past = time.time() - seconds
    for path in folder.rglob("*"):
        os.utime(path, (past, past))
