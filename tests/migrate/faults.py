"""Conversions of every kind, and what has to hold after a fault in one: the source as it was, the target absent or whole,
the next run as if nothing had happened, and nothing left after a rollback."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaberg.errors import DeltabergError, NotATable
from deltaberg.iceberg.manifest.data_file import EQUALITY_DELETES
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.rollback import rollback
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.target.existing_target import existing_target
from deltaberg.migrate.target.target_root import target_root
from deltaberg.storage import Storage, open_storage
from deltaberg.table_scan import scan_source
from deltaberg.translate.options import ConvertOptions
from tests.fault_storage import Killed

_NAMES = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
_DISPENSABLE = re.compile(r".*(\.crc|_last_checkpoint|\.checkpoint\..*)")
"""What a Delta target may lack after a fault that came behind the commit: readers do without."""

ENDS = (DeltabergError, KeyboardInterrupt, MemoryError, Killed)
FIRST = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "s": ["a", "b", None]})
SECOND = pa.table({"id": pa.array([4, 5], pa.int64()), "s": ["c", "d"]})


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """One kind of conversion. place: the source. folder: all of the source's files. target: None for the usual place."""

    name: str
    place: str
    folder: str
    to: TableFormat
    target: str | None = None
    options: ConvertOptions = field(default_factory=ConvertOptions)
    storage: Callable[[], Storage] = open_storage

    @property
    def root(self) -> str:
        return target_root(self.source(), self.target)

    def source(self, storage: Storage | None = None, **where: Any) -> Any:
        return open_source(self.place, storage or self.storage(), format=self.to.other, **where)

    def run(self, storage: Storage | None = None) -> ConvertResult:
        return convert(self.source(storage), to=self.to, target=self.target, options=self.options)


class Files:
    """The files below a folder, staged ones of a local folder included: names and content."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def below(self, folder: str) -> dict[str, bytes]:
        if folder.startswith("/"):
            root = Path(folder)
            return {str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}
        listed = list(self._storage.list(folder, recursive=True))
        return {each.location[len(folder) + 1 :]: self._storage.get(each.location) for each in listed}


class Proof:
    """What has to hold after each fault of one conversion. Every method gives the defects that it finds."""

    def __init__(self, conversion: Conversion) -> None:
        self.conversion = conversion
        self._storage = conversion.storage()
        self._files = Files(self._storage)
        self.root = conversion.root
        self._before = self._files.below(conversion.folder)
        self._rows: dict[Any, list[str]] = {}
        conversion.run()
        self._clean = self._inventory()
        wanted = rows_of(conversion.source())
        assert self.target_rows() == wanted
        assert self.rolled_back() == []

    def after_fault(self) -> list[str]:
        """The source is as it was, and the target absent or whole."""
        found = self._source_defects()
        try:
            held = existing_target(self._storage, self.root, self.conversion.to)
            if held is None:
                return found
            assert held.watermark is not None
            got = self.target_rows()
        except DeltabergError as error:
            return [*found, f"the target cannot be read: {error}"]
        if got != self._rows_at(held.watermark.version):
            found.append(f"the target has other rows than {held.watermark.describe()}: {got}")
        return found

    def after_next_run(self) -> list[str]:
        """A run without a fault ends as if there had been none."""
        try:
            self.conversion.run()
        except DeltabergError as error:
            return [f"the next run fails: {error}"]
        found = self.after_fault()
        now, clean = self._inventory(), self._clean
        if now - clean:
            found.append(f"orphan files: {sorted(now - clean)}")
        lost = [name for name in clean - now if not _DISPENSABLE.fullmatch(name)]
        return [*found, f"missing files: {lost}"] if lost else found

    def rolled_back(self) -> list[str]:
        """A rollback leaves the source's folder byte-identical and nothing of the target."""
        rollback(self._storage, self.root, format=self.conversion.to)
        found = self._source_defects()
        left = self._files.below(self.conversion.folder).keys() - self._before.keys()
        left |= self._files.below(self.root).keys() - self._before.keys()
        if left and self.root != self.conversion.folder:
            left -= self._before.keys()
        return [*found, f"the rollback left {sorted(left)}"] if left else found

    def start_again(self) -> None:
        """Take away whatever a defect left, so that the next fault meets the source alone."""
        if not self.root.startswith("/"):
            for name in self._files.below(self.root).keys() - self._before.keys():
                self._storage.delete(f"{self.root}/{name}")
        elif self.root != self.conversion.folder:
            shutil.rmtree(self.root, ignore_errors=True)
        else:
            for name in self._files.below(self.root).keys() - self._before.keys():
                (Path(self.root) / name).unlink(missing_ok=True)

    def _source_defects(self) -> list[str]:
        now = self._files.below(self.conversion.folder)
        changed = sorted(name for name, content in self._before.items() if now.get(name) != content)
        return [f"the source was changed: {changed}"] if changed else []

    def _inventory(self) -> Counter[str]:
        names = self._files.below(self.root).keys()
        if self.root == self.conversion.folder:
            names -= self._before.keys()
        return Counter(_NAMES.sub("*", name) for name in names)

    def target_metadata(self) -> str | None:
        """The metadata file or newest commit file of the target; None where there is none."""
        held = existing_target(self._storage, self.root, self.conversion.to)
        return None if held is None else held.metadata_location

    def target_rows(self) -> list[str]:
        return rows_of(open_source(self.root, self._storage, format=self.conversion.to))

    def _rows_at(self, version: int | None) -> list[str]:
        if version not in self._rows:
            chosen = "snapshot_id" if self.conversion.to is TableFormat.DELTA else "version"
            self._rows[version] = rows_of(self.conversion.source(**{chosen: version}))
        return self._rows[version]


def rows_of(source: Any) -> list[str]:
    """Rows as texts, sorted, by position: a snapshot is read in a schema of its own, a version in the target's."""
    batches = scan_source(source).batches()
    return sorted(repr(tuple(row.values())) for batch in batches for row in batch.to_pylist())


def fault(proof: Proof, storage: Storage, *, look: Callable[[], list[str]] | None = None) -> list[str]:
    """Run a conversion on a storage that fails, and everything that has to hold afterwards. look: at a target, for more."""
    with contextlib.suppress(ENDS):
        proof.conversion.run(storage)
    found = proof.after_fault() + (look() if look else [])
    found += proof.after_next_run() + (look() if look else [])
    found += proof.rolled_back()
    if found:
        proof.start_again()
    return found


def local_conversions(
    folder: Path, delete_from_delta: Callable[..., None], delete_from_iceberg: Callable[..., str]
) -> Iterator[Conversion]:
    """Every kind, in local folders."""
    plain, vectors, legacy = (str(folder / name) for name in ("delta-plain", "delta-vectors", "delta-int96"))
    write_delta(plain)
    write_delta(vectors)
    delete_from_delta(vectors, {0: [0], 1: [1]})
    write_int96(legacy)

    def to_iceberg(name: str, place: str, **options: Any) -> Conversion:
        return Conversion(
            name=name, place=place, folder=place, to=TableFormat.ICEBERG, options=ConvertOptions(**options)
        )

    yield to_iceberg("to Iceberg v1", plain, format_version=1)
    yield to_iceberg("to Iceberg v2", plain, format_version=2)
    yield to_iceberg("to Iceberg v2, vectors", vectors, format_version=2)
    yield to_iceberg("to Iceberg v3, vectors", vectors, format_version=3)
    yield to_iceberg("to Iceberg, rewritten files", legacy, strict=True)
    yield to_iceberg("to Iceberg, history", vectors, format_version=3, history="all")

    with_vectors = str(folder / "iceberg-vectors")
    made = convert(
        open_source(vectors, open_storage()),
        to="iceberg",
        target=with_vectors,
        options=ConvertOptions(format_version=3, history="all"),
    )
    sources = {
        "plain": iceberg(folder, "plain"),
        "positions": delete_from_iceberg(iceberg(folder, "positions"), {0: [0], 1: [1]}),
        "vectors": made.target_metadata,
        "equality": delete_equal(iceberg(folder, "equality")),
        "rewritten": iceberg(folder, "rewritten", renamed=True),
    }
    sources["history"] = delete_from_iceberg(iceberg(folder, "history", renamed=True), {0: [1]})

    def to_delta(name: str, kind: str, *, elsewhere: bool = False, **options: Any) -> Conversion:
        place = sources[kind]
        return Conversion(
            name=name,
            place=place,
            folder=place.rpartition("/metadata/")[0].removeprefix("file://"),
            to=TableFormat.DELTA,
            target=str(folder / f"target-{kind}") if elsewhere else None,
            options=ConvertOptions(**options),
        )

    yield to_delta("to Delta in place", "plain")
    yield to_delta("to Delta elsewhere", "plain", elsewhere=True)
    yield to_delta("to Delta, position deletes", "positions")
    yield to_delta("to Delta, vectors", "vectors")
    yield to_delta("to Delta, vectors, history", "vectors", elsewhere=True, history="all")
    yield to_delta("to Delta, equality deletes", "equality", elsewhere=True)
    yield to_delta("to Delta, rewritten files", "rewritten", former_names="rewrite")
    yield to_delta("to Delta, rewritten files, history", "history", former_names="rewrite", history="all")


def remote_conversions(
    url: str, delete_from_delta: Callable[..., None], storage: Callable[[], Storage] = open_storage
) -> Iterator[Conversion]:
    """Some kinds in a bucket."""
    vectors = f"{url}/delta"
    write_delta(vectors)
    delete_from_delta(vectors, {0: [0], 1: [1]})
    version_3 = ConvertOptions(format_version=3, history="all")
    made = convert(open_source(vectors, storage()), to="iceberg", target=f"{url}/iceberg", options=version_3)
    kinds: Mapping[str, Mapping[str, Any]] = {
        "to Iceberg v3, vectors": {"to": TableFormat.ICEBERG, "place": vectors, "folder": vectors},
        "to Delta, vectors, in place": {
            "to": TableFormat.DELTA,
            "place": made.target_metadata,
            "folder": f"{url}/iceberg",
        },
        "to Delta, history": {
            "to": TableFormat.DELTA,
            "place": made.target_metadata,
            "folder": f"{url}/iceberg",
            "target": f"{url}/history",
            "options": ConvertOptions(history="all"),
        },
    }
    for name, kind in kinds.items():
        yield Conversion(name=f"{name}, S3", storage=storage, **kind)


def write_delta(folder: str) -> None:
    import deltalake

    for rows in (FIRST, SECOND):
        deltalake.write_deltalake(folder, rows, mode="append")


def write_int96(folder: str) -> None:
    """A Delta table of files with a timestamp type that Iceberg does not have."""
    import deltalake

    Path(folder).mkdir()
    for number in range(2):
        moments = pa.array([number, None], pa.timestamp("us", tz="UTC"))
        pq.write_table(pa.table({"at": moments}), f"{folder}/{number}.parquet", use_deprecated_int96_timestamps=True)
    deltalake.convert_to_deltalake(folder)


def iceberg(folder: Path, name: str, *, renamed: bool = False) -> str:
    """A table of PyIceberg's in ``folder``; the metadata file. renamed: its second file has a column under a new name."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(
        "t", uri=f"sqlite:///{folder}/{name}.db", warehouse=f"file://{folder}/{name}", **{"init_catalog_tables": "true"}
    )
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", FIRST.schema)
    table.append(FIRST)
    if renamed:
        with table.update_schema() as update:
            update.rename_column("s", "called")
    table.append(SECOND.rename_columns(["id", "called"]) if renamed else SECOND)
    catalog.close()
    return str(table.metadata_location)


def delete_equal(place: str) -> str:
    """Delete the rows of id 2 by an equality delete file; the new metadata file."""
    from tests.migrate.conftest import OneTable

    storage = open_storage()
    table = Table.of_catalog(OneTable(place), storage)
    location = f"{table.location}/data/equality-deletes.parquet"
    stored = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table([pa.array([2], pa.int64())], schema=stored), storage.resolve(location))
    entry = pa.record_batch(
        {
            "content": pa.array([EQUALITY_DELETES], pa.int32()),
            "file_path": pa.array([location]),
            "file_format": pa.array(["parquet"]),
            "partition": pa.array([{}], pa.struct([])),
            "record_count": pa.array([1], pa.int64()),
            "file_size_in_bytes": pa.array([Path(storage.resolve(location)).stat().st_size]),
            "spec_id": pa.array([0], pa.int32()),
            "equality_ids": pa.array([[1]], pa.list_(pa.int32())),
        }
    )
    with table.transaction() as transaction:
        transaction.snapshot("delete").add_files(entry, 0)
        return transaction.commit().metadata_location


__all__ = ["Conversion", "NotATable", "Proof", "fault", "local_conversions", "remote_conversions"]
