"""Syncs of every kind, and what has to hold after a fault in one: the source as it was, the target at one of the source's
commits and whole, the next run as if nothing had happened, and nothing left after a rollback."""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaberg.errors import DeltabergError, Interrupted
from deltaberg.iceberg.table import Table
from deltaberg.migrate.rollback import rollback
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.sync import SyncResult, sync
from deltaberg.migrate.target.existing_target import existing_target
from deltaberg.migrate.target.target_root import target_root
from deltaberg.storage import Storage, open_storage
from deltaberg.translate.options import ConvertOptions
from tests.migrate.conftest import OneTable
from tests.migrate.faults import ENDS, FIRST, SECOND, iceberg, rows_of, write_delta, write_int96

_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
_DISPENSABLE = re.compile(r".*(\.crc|_last_checkpoint|\.checkpoint\..*|version-hint\.text)")
"""What a target may lack after a fault that came behind the commit: readers do without."""

THIRD = pa.table({"id": pa.array([6, 7], pa.int64()), "s": ["e", None]})


@dataclass(frozen=True, kw_only=True)
class PendingSync:
    """A target that is behind its source. place: the source. folder: all of the source's files, and of the target's where that
    is in place. target: None for the usual place."""

    name: str
    place: str
    folder: str
    to: TableFormat
    target: str | None = None
    options: ConvertOptions | None = None

    def source(self, storage: Storage | None = None, **where: Any) -> Any:
        return open_source(self.place, storage or open_storage(), format=self.to.other, **where)

    @property
    def root(self) -> str:
        return target_root(self.source(), self.target)

    def run(self, storage: Storage | None = None) -> SyncResult:
        return sync(self.source(storage), to=self.to, target=self.target, options=self.options)


@dataclass(frozen=True)
class _File:
    content: bytes
    times: tuple[int, int]


class _Picture:
    """The files below some folders, to be put back as they were."""

    def __init__(self, *folders: str) -> None:
        self._folders = folders
        self.files = self._look()

    def _look(self) -> dict[Path, _File]:
        return {
            each: _File(each.read_bytes(), (each.stat().st_atime_ns, each.stat().st_mtime_ns))
            for folder in self._folders
            for each in Path(folder).rglob("*")
            if each.is_file()
        }

    def put_back(self) -> None:
        now = self._look()
        for path in now.keys() - self.files.keys():
            path.unlink()
        for path, file in self.files.items():
            if path not in now or now[path] != file:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.content)
                os.utime(path, ns=file.times)


class SyncProof:
    """What has to hold after each fault of one sync. Every method gives the defects that it finds."""

    def __init__(self, pending: PendingSync) -> None:
        self.pending = pending
        self._storage = open_storage()
        self.root = pending.root
        self._picture = _Picture(pending.folder, *([pending.target] if pending.target else []))
        self._rows: dict[Any, list[str]] = {}
        before = self._held().watermark
        assert before is not None
        self._source_files = {
            path: file.content for path, file in self._picture.files.items() if not self._is_target(path)
        }
        done = pending.run()
        self.commits = done.commits
        assert self.commits
        self._states = [before.version, *(source for source, _ in done.commits)]
        self._clean = self._inventory()
        self._end = self.after_fault()
        assert self._end == []
        assert rows_of(self._target()) == rows_of(pending.source())
        self._picture.put_back()

    def _is_target(self, path: Path) -> bool:
        name = str(path)
        if self.pending.target is not None:
            return name.startswith(f"{self.pending.target}/")
        if self.pending.to is TableFormat.ICEBERG:
            return name.startswith(f"{self.root}/")
        return any(part in ("_delta_log", "_deltaberg") for part in path.relative_to(self.pending.folder).parts)

    def _held(self) -> Any:
        held = existing_target(self._storage, self.root, self.pending.to)
        assert held is not None
        return held

    def _target(self, **where: Any) -> Any:
        return open_source(self.root, self._storage, format=self.pending.to, **where)

    def after_fault(self) -> list[str]:
        """The source is as it was, and the target has the rows of the commit that it says it holds."""
        found = [
            f"the source was changed: {path}"
            for path, content in self._source_files.items()
            if not path.exists() or path.read_bytes() != content
        ]
        try:
            held = self._held()
            got = rows_of(self._target())
        except DeltabergError as error:
            return [*found, f"the target cannot be read: {error}"]
        assert held.watermark is not None
        if held.watermark.version not in self._states:
            found.append(f"the target holds {held.watermark.describe()} (expected one of {self._states})")
        elif got != self._rows_at(held.watermark.version):
            found.append(f"the target has other rows than {held.watermark.describe()}: {got}")
        return found

    def after_next_run(self) -> list[str]:
        """A run without a fault ends as if there had been none, every commit of it."""
        try:
            commits = self.pending.run().commits
        except DeltabergError as error:
            return [f"the next run fails: {error}"]
        found = self.after_fault()
        if self._held().watermark.version != self._states[-1]:
            found.append("the next run does not bring the target up to date")
        if self.pending.to is TableFormat.DELTA:
            for source, version in self.commits:
                if rows_of(self._target(version=version)) != self._rows_at(source):
                    found.append(f"version {version} has other rows than snapshot {source}")
        now, clean = self._inventory(), self._clean
        orphans = sorted(now - clean)
        if not commits:
            # Only a commit proves that a sync that died can commit no more: until then its document stays.
            orphans = [name for name in orphans if "/_deltaberg/run-" not in name]
        if orphans:
            found.append(f"orphan files: {orphans}")
        lost = [name for name in clean - now if not _DISPENSABLE.fullmatch(name)]
        return [*found, f"missing files: {lost}"] if lost else found

    def rolled_back(self) -> list[str]:
        """A rollback leaves the source's files byte-identical and nothing of the target."""
        rollback(self._storage, self.root, format=self.pending.to)
        now = _Picture(self.pending.folder, *([self.pending.target] if self.pending.target else [])).files
        left = sorted(str(path) for path in now.keys() - self._source_files.keys())
        gone = sorted(str(path) for path in self._source_files.keys() - now.keys())
        changed = [str(path) for path, content in self._source_files.items() if now[path].content != content]
        return [f"the rollback left {left}, took {gone}, changed {changed}"] if left or gone or changed else []

    def start_again(self) -> None:
        self._picture.put_back()

    def read_by_others(self, reader: Any) -> list[str]:
        """What an engine that nobody here wrote says to the target: the number of its rows is what our reader says."""
        held = self._held()
        if self.pending.to is TableFormat.ICEBERG:
            got = reader.read("pyiceberg", held.metadata_location)
        else:
            got = reader.read("deltalake", self.root)
        if isinstance(got, str):
            return [got]
        rows = len(rows_of(self._target()))
        return [] if got.num_rows == rows else [f"another engine reads {got.num_rows} rows instead of {rows}"]

    def _inventory(self) -> Counter[str]:
        now = _Picture(self.pending.folder, *([self.pending.target] if self.pending.target else [])).files
        return Counter(_NAMES.sub("*", str(path)) for path in now if self._is_target(path))

    def _rows_at(self, version: int | None) -> list[str]:
        if version not in self._rows:
            chosen = "snapshot_id" if self.pending.to is TableFormat.DELTA else "version"
            self._rows[version] = rows_of(self.pending.source(**{chosen: version}))
        return self._rows[version]


def sync_fault(
    proof: SyncProof, storage: Storage, *, look: Callable[[], list[str]] | None = None, roll_back: bool = True
) -> list[str]:
    """Run a sync on a storage that fails, and everything that has to hold afterwards; the target is behind again then.

    look: at the target, for more. roll_back: whether a rollback is tried, too.
    """
    found = []
    try:
        with contextlib.suppress(*ENDS):
            proof.pending.run(storage)
    except KeyboardInterrupt as error:
        if not isinstance(error, Interrupted):
            found.append(f"an interrupt comes as {error!r}")
    found += proof.after_fault() + (look() if look else [])
    found += proof.after_next_run() + (look() if look else [])
    if roll_back:
        found += proof.rolled_back()
    proof.start_again()
    return found


def pending_syncs(
    folder: Path, delete_from_delta: Callable[..., None], delete_from_iceberg: Callable[..., str]
) -> Iterator[PendingSync]:
    """Every kind, in local folders."""
    for version in (1, 2, 3):
        yield _delta(folder, f"delta-files-{version}", _change_files, None, format_version=version)
    for version in (2, 3):
        yield _delta(folder, f"delta-vectors-{version}", _change_vectors, delete_from_delta, format_version=version)
    yield _rewritten_delta(folder)
    for elsewhere in (True, False):
        yield _iceberg(folder, "files", elsewhere, lambda table, _: _append_and_remove(table))
        yield _iceberg(folder, "positions", elsewhere, lambda table, place: _delete(table, place, delete_from_iceberg))
    yield _iceberg_vectors(folder, delete_from_delta, delete_from_iceberg)
    yield _iceberg(folder, "rewritten", True, lambda table, _: _rename(table), former_names="rewrite")


def _delta(folder: Path, name: str, change: Callable[[str, Any], None], delete: Any, **options: Any) -> PendingSync:
    place = str(folder / name)
    write_delta(place)
    if delete is not None:
        delete(place, {0: [0]})
    made = ConvertOptions(**options)
    sync(open_source(place, open_storage()), to="iceberg", options=made)
    change(place, delete)
    return PendingSync(name=f"to Iceberg, {name}", place=place, folder=place, to=TableFormat.ICEBERG)


def _change_files(place: str, _: Any) -> None:
    """Append, remove, add a column, append."""
    import deltalake

    deltalake.write_deltalake(place, THIRD, mode="append")
    deltalake.DeltaTable(place).delete("id = 4 or id = 5")
    more = THIRD.append_column("extra", pa.array([1, 2], pa.int64()))
    deltalake.write_deltalake(place, more, mode="append", schema_mode="merge")


def _change_vectors(place: str, delete: Any) -> None:
    """A vector more, and another one in place of one that there is."""
    delete(place, {1: [1]})
    delete(place, {0: [0, 1]})


def _rewritten_delta(folder: Path) -> PendingSync:
    import deltalake
    import pyarrow.parquet as pq

    place = str(folder / "delta-int96")
    write_int96(place)
    sync(open_source(place, open_storage()), to="iceberg", options=ConvertOptions(strict=True))
    log = Path(place) / "_delta_log"
    name = "later.parquet"
    moments = pa.table({"at": pa.array([7], pa.timestamp("us", tz="UTC"))})
    pq.write_table(moments, f"{place}/{name}", use_deprecated_int96_timestamps=True)
    size, now = (Path(place) / name).stat().st_size, int((Path(place) / name).stat().st_mtime * 1000) + 60_000
    add = (
        f'{{"add":{{"path":"{name}","partitionValues":{{}},"size":{size},"modificationTime":{now},"dataChange":true,'
        '"stats":"{\\"numRecords\\":1}"}}'
    )
    version = deltalake.DeltaTable(place).version() + 1
    (log / f"{version:020}.json").write_text(f'{{"commitInfo":{{"timestamp":{now},"operation":"WRITE"}}}}\n{add}\n')
    return PendingSync(name="to Iceberg, rewritten files", place=place, folder=place, to=TableFormat.ICEBERG)


def _iceberg(
    folder: Path, kind: str, elsewhere: bool, change: Callable[[Any, str], str], **options: Any
) -> PendingSync:
    from pyiceberg.catalog.sql import SqlCatalog

    name = f"{kind}-{'elsewhere' if elsewhere else 'inside'}"
    first = iceberg(folder, name)
    place = first.rpartition("/metadata/")[0].removeprefix("file://")
    target = str(folder / f"target-{name}") if elsewhere else None
    made = ConvertOptions(**options)
    sync(open_source(first, open_storage(), format=TableFormat.ICEBERG), to="delta", target=target, options=made)
    catalog = SqlCatalog("t", uri=f"sqlite:///{folder}/{name}.db", warehouse=f"file://{folder}/{name}")
    last = change(catalog.load_table("n.t"), first)
    catalog.close()
    return PendingSync(name=f"to Delta, {name}", place=last, folder=place, to=TableFormat.DELTA, target=target)


def _append_and_remove(table: Any) -> str:
    from pyiceberg.types import LongType

    table.append(THIRD)
    table.delete("id = 4 or id = 5")
    with table.update_schema() as update:
        update.add_column("extra", LongType())
    table.append(THIRD.append_column("extra", pa.array([1, 2], pa.int64())))
    return str(table.metadata_location)


def _delete(table: Any, place: str, delete: Any) -> str:
    return str(delete(delete(place, {0: [0]}), {0: [1], 1: [0]}))


def _rename(table: Any) -> str:
    with table.update_schema() as update:
        update.rename_column("s", "called")
    table.append(THIRD.rename_columns(["id", "called"]))
    return str(table.metadata_location)


def _iceberg_vectors(folder: Path, delete_from_delta: Any, delete_from_iceberg: Any) -> PendingSync:
    origin, place, target = (str(folder / name) for name in ("origin", "iceberg-vectors", "target-vectors"))
    write_delta(origin)
    delete_from_delta(origin, {0: [0]})
    options = ConvertOptions(format_version=3)
    made = sync(open_source(origin, open_storage()), to="iceberg", target=place, options=options)
    sync(open_source(place, open_storage(), format=TableFormat.ICEBERG), to="delta", target=target)
    storage = open_storage()
    with Table.open(place, storage).transaction() as transaction:
        transaction.set_properties({"team": "a"}).commit()
    location = delete_from_iceberg(Table.open(place, storage).metadata_location, {1: [0]})
    assert location != made.target_metadata
    return PendingSync(name="to Delta, vectors", place=place, folder=place, to=TableFormat.DELTA, target=target)


__all__ = ["FIRST", "SECOND", "OneTable", "PendingSync", "SyncProof", "pending_syncs", "sync_fault"]
