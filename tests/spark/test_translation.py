"""Metadata translated in parts: the same plan and the same entries as in one process, for tables of every kind."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.live_files import data_files, delete_files
from deltaberg.migrate import convert as conversion
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.engine import LocalEngine, PartsOfSource
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, open_source
from deltaberg.migrate.spark.distribution import PartSettings, distributed
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

CLOCK_MS = 1_700_000_000_000
CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
DELTA = sorted(path.parent.name for path in CORPUS.glob("delta/*/case.json"))
ICEBERG = sorted(path.parent.name for path in CORPUS.glob("iceberg/*/case.json"))


class InParts(LocalEngine):
    """The local engine, but for the files, which units of ``work`` look at and translate."""

    def __init__(self, work: Any, files_per_part: int = 2) -> None:
        self.work = work
        self.settings = PartSettings(distribute_from=0, files_per_part=files_per_part)

    def parts_of(
        self, source: Source, options: ConvertOptions, *, target: Any, progress: Any
    ) -> AbstractContextManager[PartsOfSource | None]:
        return distributed(self.work, source, options, settings=self.settings, target=target, progress=lambda *_: None)


@pytest.fixture
def both(in_this_process: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """``both(source, to, options)``: the local conversion and the one in parts, or the error of both."""

    def run(source: Source, to: str, **options: Any) -> tuple[ConvertResult, ConvertResult] | str:
        chosen = ConvertOptions(**options)
        results: list[ConvertResult | str] = []
        for engine, name in ((LocalEngine(), "local"), (InParts(in_this_process), "parts")):
            monkeypatch.setattr(conversion, "engine_of", lambda *_, engine=engine: engine)
            target = tmp_path / name
            try:
                results.append(convert(source, to=to, target=str(target), options=chosen, clock_ms=CLOCK_MS))
            except DeltabergError as error:
                results.append(str(error).replace(str(target), "TARGET"))
                assert [path for path in tmp_path.rglob("*") if path.is_file() and target in path.parents] == []
        if isinstance(results[0], str) or isinstance(results[1], str):
            assert results[0] == results[1]
            return str(results[0])
        return results[0], results[1]

    return run


def said(done: ConvertResult) -> dict[str, Any]:
    """The plan, without the place of the target."""
    document = done.plan.to_json()
    return {**document, "target": {**document["target"], "location": ""}}


def entries(done: ConvertResult) -> list[str]:
    """What the target says of its files, deletes included; names of files that each run writes are its own."""
    table = open_source(done.target, open_storage())
    return sorted(map(repr, _of_iceberg(table) if isinstance(table, IcebergSource) else _of_delta(table)))


def _of_iceberg(table: IcebergSource) -> list[dict[str, Any]]:
    snapshot = table.snapshot
    assert snapshot is not None
    rows = [row for batch in data_files(table.table, snapshot) for row in batch.to_pylist()]
    for row in rows:
        if "rewritten-" in row["file_path"] or "/parts/data/" in row["file_path"] or "/local/data/" in row["file_path"]:
            row["file_path"] = "rewritten"
            row["first_row_id"] = None
    deletes = [row for batch in delete_files(table.table, snapshot) for row in batch.to_pylist()]
    for row in deletes:
        if row["file_format"] == "puffin":
            blob = table.storage.get_range(row["file_path"], row["content_offset"], row["content_size_in_bytes"])
            row["content_offset"], row["file_size_in_bytes"] = blob, 0
        row["file_path"] = ""
    return [*rows, *deletes]


def _of_delta(table: DeltaSource) -> list[dict[str, Any]]:
    rows = [row for batch in table.snapshot.add_files() for row in batch.to_pylist(maps_as_pydicts="lossy")]
    for row in rows:
        # A checkpoint says of no file that it changes data; new files are of version 1 and not 0.
        row["data_change"] = None
        if "rewritten-" in row["path"]:
            row["path"] = "rewritten"
            row["default_row_commit_version"] = None
        vector = row["deletion_vector"]
        if vector is not None:
            from deltaberg.delta.deletion_vector import DeletionVectorDescriptor, read_blobs

            described = DeletionVectorDescriptor(**vector)
            row["deletion_vector"] = [
                bytes(blob) for blob in read_blobs(table.storage, table.snapshot.table_root, [described])
            ]
    return rows


def same(found: tuple[ConvertResult, ConvertResult]) -> None:
    local, parts = found
    assert said(parts) == said(local)
    assert entries(parts) == entries(local)
    assert (parts.files, parts.rows, parts.rewritten_files) == (local.files, local.rows, local.rewritten_files)
    assert not list(Path(parts.target).rglob("*staging-*"))


@pytest.mark.skipif(not DELTA, reason="../shared is absent")
@pytest.mark.parametrize("name", DELTA)
def test_a_delta_table_of_the_corpus_becomes_the_same_iceberg_table(name: str, both: Any) -> None:
    try:
        source = open_source(str(CORPUS / "delta" / name / "table"), open_storage())
    except DeltabergError as error:
        pytest.skip(f"the table itself is refused: {error}")
    if not isinstance(source, DeltaSource):
        pytest.skip("it is another format's table")
    found = both(source, "iceberg")
    if not isinstance(found, str):
        same(found)


@pytest.mark.skipif(not ICEBERG, reason="../shared is absent")
@pytest.mark.parametrize("name", ICEBERG)
def test_an_iceberg_table_of_the_corpus_becomes_the_same_delta_table(name: str, both: Any) -> None:
    folder = CORPUS / "iceberg" / name
    known = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    relocate = {known["location"]: str(folder / "table")} if known.get("location") else {}
    relocate |= {old: str(folder / new) for old, new in (known.get("relocate") or {}).items()}
    relocate["s3://fake-bucket"] = str(folder / "absent")
    try:
        source = open_source(str(folder / "table" / known["metadata"]), open_storage(relocate=relocate))
    except DeltabergError as error:
        pytest.skip(f"the table itself is refused: {error}")
    found = both(source, "delta")
    if not isinstance(found, str):
        same(found)
