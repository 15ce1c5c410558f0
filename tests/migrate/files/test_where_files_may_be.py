"""Files outside a table: those in its own store are read and named, those of other stores refused before anything is asked.

docs/reliability.md, "Where files may be".
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

import deltaberg
from deltaberg.delta.deletion_vector.deletion_vector import inline_descriptor
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import open_source
from deltaberg.storage import LocationRefused, open_storage

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
OUTSIDE, ALLOWED, OTHER = "files-outside-table", "files-where-allowed", "files-in-another-store"
SECRET_TEXT = "Qx7~Kw3^Vj9%Zt5&Hb1*Gf8$Yp2#Lm6@" * 8


@dataclass
class Listener:
    """A host that nobody may connect to."""

    port: int
    connections: list[Any]

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"


@pytest.fixture
def host() -> Iterator[Listener]:
    found: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, address = server.accept()
                    found.append(address)
                    connection.close()

        Thread(target=accept, daemon=True).start()
        yield Listener(port=server.getsockname()[1], connections=found)


@pytest.fixture
def delta(tmp_path: Path, write_delta: Any) -> Path:
    return Path(write_delta(ROWS, tmp_path / "lake" / "t"))


def actions(folder: Path, version: int = 0) -> list[dict[str, Any]]:
    text = (folder / "_delta_log" / f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def point(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the one ``add`` of version 0."""
    lines = actions(folder)
    for line in lines:
        if "add" in line:
            change(line["add"])
    (folder / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")


def with_path(path: str) -> Callable[[dict[str, Any]], None]:
    return lambda add: add.update(path=path)


def items(document: dict[str, Any], key: str = "items") -> list[tuple[str, str, str, int]]:
    wanted = {OUTSIDE, ALLOWED, OTHER}
    return [
        (each["code"], each["severity"], each["what"], each["files"])
        for each in document[key]
        if each["code"] in wanted
    ]


class TestFilesInTheOwnStore:
    """A local table with its only file in ``other``."""

    @pytest.fixture
    def outside(self, delta: Path) -> Path:
        (file,) = delta.glob("*.parquet")
        folder = delta.parent / "other place" / "deep"
        folder.mkdir(parents=True)
        shutil.move(file, folder / file.name)
        return folder / file.name

    SPELLINGS = ("{path}", "file:{path}", "file://{path}", "../other%20place/deep/{name}", "%2e%2e/other%20place/deep/{name}",
                 "x/%2E%2E/..%2Fother place/deep/{name}", "x/../../other%20place/deep/{name}")  # fmt: skip

    @pytest.mark.parametrize("spelling", SPELLINGS)
    def test_are_read_and_their_folder_is_named(self, spelling: str, delta: Path, outside: Path, command: Any) -> None:
        (delta / "x").mkdir()
        point(delta, with_path(spelling.format(path=quote(str(outside)), name=outside.name)))
        named = [(OUTSIDE, "warning", f"{outside.parent}/", 1)]
        assert items(command("inspect", delta, "--json").document, "warnings") == named
        assert f"{outside.parent}/" in command("inspect", delta).out
        plan = command("plan", delta, "--to", "iceberg", "--json")
        assert (plan.code, items(plan.document)) == (0, named)
        strict = command("convert", delta, "--to", "iceberg", "--strict", "--json")
        assert (strict.code, items(strict.document["plan"])) == (3, [(OUTSIDE, "refuse", f"{outside.parent}/", 1)])
        assert not (delta / "_iceberg").exists()
        done = command("convert", delta, "--to", "iceberg", "--json")
        assert (done.code, items(done.document["plan"])) == (0, named)
        assert deltaberg.verify(delta, f"{delta}/_iceberg", rows=True).equal

    def test_are_no_warning_where_they_are_allowed(self, delta: Path, outside: Path, command: Any) -> None:
        point(delta, with_path(quote(str(outside))))
        allow = ("--allow-location", delta.parent / "other place")
        plan = command("plan", delta, "--to", "iceberg", "--strict", *allow, "--json")
        assert (plan.code, items(plan.document)) == (0, [(ALLOWED, "info", f"{outside.parent}/", 1)])
        near = command(
            "plan", delta, "--to", "iceberg", "--strict", "--allow-location", delta.parent / "other", "--json"
        )
        assert near.code == 3

    def test_of_an_iceberg_table_are_named_too(self, delta: Path, command: Any, tmp_path: Path) -> None:
        target = tmp_path / "ice" / "t"
        deltaberg.convert(delta, to="iceberg", target=target)
        named = [(OUTSIDE, "warning", f"{delta}/", 1)]
        assert items(command("inspect", target, "--json").document, "warnings") == named
        assert items(command("plan", target, "--to", "delta", "--json").document) == named

    def test_of_a_table_inside_another_one_are_the_same_table(self, delta: Path, command: Any) -> None:
        """``_iceberg`` is where deltaberg itself puts the other table of the same files."""
        deltaberg.convert(delta, to="iceberg")
        assert items(command("inspect", delta / "_iceberg", "--json").document, "warnings") == []
        plan = command("plan", delta / "_iceberg", "--to", "delta", "--strict", "--json")
        assert items(plan.document) == []

    def test_manifests_of_the_original_are_named_in_a_copy(self, delta: Path, command: Any, tmp_path: Path) -> None:
        original = tmp_path / "original"
        deltaberg.convert(delta, to="iceberg", target=original)
        copy = shutil.copytree(original, tmp_path / "copy")
        found = items(command("inspect", copy, "--json").document, "warnings")
        assert (OUTSIDE, "warning", f"{original}/metadata/", 2) in found

    def test_a_few_folders_stand_for_many_files(self, delta: Path, command: Any) -> None:
        add = next(line for line in actions(delta) if "add" in line)
        lines = [line for line in actions(delta) if "add" not in line]
        for number in range(2000):
            path = f"/somewhere-{number % 30:02}/a/part-{number}.parquet"
            lines.append({"add": {**add["add"], "path": path}})
        (delta / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
        found = items(command("inspect", delta, "--json").document, "warnings")
        assert len(found) == 21
        assert found[0] == (OUTSIDE, "warning", "/somewhere-00/a/", 67)
        assert found[20][2:] == ("and 10 more folders", 2000 - 20 * 67)


PLACES = (
    "s3://elsewhere/secret/f.parquet",
    "s3a://elsewhere/f.parquet",
    "gs://elsewhere/f.parquet",
    "abfss://c@account.dfs.core.windows.net/f.parquet",
    "https://127.0.0.1:{port}/f.parquet",
    "HTTPS://127.0.0.1:{port}/f.parquet",
    "memory://elsewhere/f.parquet",
)


class TestFilesOfAnotherStore:
    """Of a local table."""

    @pytest.mark.parametrize("place", PLACES)
    def test_are_refused_before_anything_is_asked(self, place: str, delta: Path, command: Any, host: Listener) -> None:
        path = place.format(port=host.port)
        point(delta, with_path(path))
        folder = path.rpartition("/")[0].replace("s3a:", "s3:").replace("HTTPS:", "https:") + "/"
        found = items(command("inspect", delta, "--json").document, "warnings")
        assert [(each[0], each[1], each[3]) for each in found] == [(OTHER, "refuse", 1)]
        for verb in ("plan", "convert"):
            outcome = command(verb, delta, "--to", "iceberg", "--json")
            assert outcome.code == 3, outcome.err
            document = outcome.document if verb == "plan" else outcome.document["plan"]
            ((code, severity, _, _),) = items(document)
            assert (code, severity) == (OTHER, "refuse")
            assert f"1 file below {folder}" in document["items"][0]["reason"]
            assert "--allow-location PREFIX" in document["items"][0]["reason"]
        scanned = command("scan", delta)
        assert scanned.code == 3
        assert "names another store than the table's own (local files), and nothing of it was contacted" in scanned.err
        assert not (delta / "_iceberg").exists()
        assert host.connections == []

    def test_are_asked_for_once_they_are_allowed(self, delta: Path, command: Any) -> None:
        point(delta, with_path("memory://elsewhere/data/f.parquet"))
        allowed = command("plan", delta, "--to", "iceberg", "--allow-location", "memory://elsewhere/data", "--json")
        codes = {each["code"]: each for each in allowed.document["items"]}
        assert "no such file" in codes["file-unreadable"]["reason"]
        assert codes[ALLOWED]["what"] == "memory://elsewhere/data/"
        for near in ("memory://elsewhere/dat", "memory://elsewher", "s3://elsewhere/data", "/elsewhere/data"):
            refused = command("plan", delta, "--to", "iceberg", "--allow-location", near, "--json")
            assert [code for code, *_ in items(refused.document)] == [OTHER]

    def test_are_read_where_a_relocation_says_that_they_are(self, delta: Path, tmp_path: Path) -> None:
        (file,) = delta.glob("*.parquet")
        point(delta, with_path(f"s3://elsewhere/x/{file.name}"))
        moved = tmp_path / "moved"
        moved.mkdir()
        shutil.move(file, moved / file.name)
        relocate = {"s3://elsewhere/x": str(moved)}
        assert deltaberg.inspect(delta, relocate=relocate).warnings[0].code == ALLOWED
        assert deltaberg.convert(delta, to="iceberg", relocate=relocate).rows == 3

    @pytest.mark.parametrize("kind", ["p", "sidecar"])
    def test_count_as_well_that_hold_metadata(self, kind: str, delta: Path, command: Any, host: Listener) -> None:
        url = f"{host.url}/x"
        lines = actions(delta)
        if kind == "p":
            blob = inline_descriptor(b"\0" * 34, 1).to_json()
            vector = {**blob, "storageType": "p", "pathOrInlineDv": f"{url}/dv.bin", "offset": 1}
            for line in lines:
                if "add" in line:
                    line["add"]["deletionVector"] = vector
                if "protocol" in line:
                    line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7,
                                        "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}  # fmt: skip
            (delta / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
        else:
            protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"],
                        "writerFeatures": ["v2Checkpoint"]}  # fmt: skip
            rest = [line for line in lines if "metaData" in line]
            sidecar = {"path": f"{url}/s.parquet", "sizeInBytes": 100, "modificationTime": 0}
            content = [{"checkpointMetadata": {"version": 0}}, {"protocol": protocol}, *rest, {"sidecar": sidecar}]
            name = f"{0:020}.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"
            (delta / "_delta_log" / name).write_text("\n".join(map(json.dumps, content)) + "\n")
        for verb in (("plan", "--to", "iceberg"), ("convert", "--to", "iceberg"), ("scan",)):
            outcome = command(verb[0], delta, *verb[1:])
            assert outcome.code == 3, outcome.err
            assert f"1 file below {url}/" in outcome.err
        assert host.connections == []

    @pytest.mark.parametrize("part", ["manifest-list", "manifest", "data file", "metadata"])
    def test_of_an_iceberg_table_whatever_they_are(
        self, part: str, delta: Path, command: Any, host: Listener, tmp_path: Path
    ) -> None:
        target = tmp_path / "ice"
        deltaberg.convert(delta, to="iceberg", target=target)
        url = f"{host.url}/x"
        path = target / "metadata/v1.metadata.json"
        if part == "manifest-list":
            metadata = json.loads(path.read_text())
            metadata["snapshots"][0]["manifest-list"] = f"{url}/list.avro"
            path.write_text(json.dumps(metadata))
        elif part == "manifest":  # version 1 lists its manifests in the metadata
            metadata = json.loads(path.read_text())
            metadata["format-version"] = 1
            del metadata["snapshots"][0]["manifest-list"]
            metadata["snapshots"][0]["manifests"] = [f"{url}/m.avro"]
            path.write_text(json.dumps(metadata))
        elif part == "metadata":
            metadata = json.loads(path.read_text())
            metadata["statistics"] = [
                {"snapshot-id": metadata["current-snapshot-id"], "statistics-path": f"{url}/s.puffin",
                 "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
            ]  # fmt: skip
            path.write_text(json.dumps(metadata))
        else:
            table = Table.open(str(target), open_storage())
            (batch,) = data_files(table, table.metadata.current_snapshot)
            place = batch.schema.get_field_index("file_path")
            moved = batch.set_column(place, "file_path", pa.array([f"{url}/f.parquet"]))
            with table.transaction() as transaction:
                transaction.snapshot("append").add_files([moved], moved.column("spec_id")[0].as_py())
                transaction.commit()
        outcome = command("plan", target, "--to", "delta", "--json")
        assert outcome.code == 3
        assert any(code == OTHER for code, *_ in items(outcome.document))
        assert command("convert", target, "--to", "delta").code == 3
        assert not (target / "_delta_log").exists()
        assert host.connections == []


class TestATableInABucket:
    """Of a store in memory: nothing else has to be there."""

    @pytest.mark.parametrize(
        "place",
        [
            "/etc/passwd",
            "file:/etc/passwd",
            "file:///etc/passwd",
            "memory://bucket2/x",
            "http://169.254.169.254/latest",
            "s3://b/x",
        ],
    )
    def test_may_not_name_local_files_or_other_hosts(self, place: str) -> None:
        storage = open_storage()
        log = "memory://bucket/t/_delta_log/00000000000000000000.json"
        schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
        lines = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": "u", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                          "schemaString": json.dumps(schema), "configuration": {}}},
            {"add": {"path": place, "partitionValues": {}, "size": 10, "modificationTime": 0, "dataChange": True}},
        ]  # fmt: skip
        storage.put(log, "\n".join(map(json.dumps, lines)).encode())
        source = open_source("memory://bucket/t", storage)
        for ask in (
            lambda: source.storage.get(place),
            lambda: source.storage.get_range(place, 0, 1),
            lambda: source.storage.head(place),
            lambda: source.storage.exists(place),
            lambda: source.storage.open(place),
            lambda: source.storage.list(place),
            lambda: source.storage.probe(place, ["x"]),
            lambda: source.storage.present(pa.array([place])),
            lambda: source.storage.resolve_many(pa.array(["memory://bucket/x", place])),
        ):
            with pytest.raises(LocationRefused, match="names another store than the table's own \\(memory://bucket\\)"):
                ask()
        from deltaberg.migrate.plan import plan

        (item,) = [each for each in plan(source, to="iceberg").items if each.severity == "refuse"]
        assert item.code == OTHER

    def test_reads_what_is_allowed(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"1")
        source_storage = open_storage()
        source_storage.put("memory://bucket/t/_delta_log/00000000000000000000.json", _EMPTY)
        source = open_source("memory://bucket/t", source_storage, allow_locations=[f"file://{tmp_path}/"])
        assert source.storage.get(f"{tmp_path}/x") == b"1"
        for beyond in (f"{tmp_path}/../x", f"{tmp_path}x/x", f"{tmp_path}/y/../../x"):
            with pytest.raises(LocationRefused):
                source.storage.get(beyond)


_EMPTY = "\n".join(
    json.dumps(line)
    for line in (
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "u", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [],
                      "schemaString": '{"type":"struct","fields":[]}', "configuration": {}}},
    )
).encode()  # fmt: skip


class TestBytesOfAStrangersFile:
    """Metadata may name any local file; no message may show what is in it."""

    @pytest.fixture
    def victim(self, tmp_path: Path) -> Path:
        path = tmp_path / "victim"
        path.write_text(SECRET_TEXT)
        return path

    @staticmethod
    def shows_nothing(*texts: str) -> None:
        """Neither as text nor as hexadecimal nor as a number of four bytes."""
        for text in texts:
            for at in range(32):
                piece = SECRET_TEXT[at : at + 4]
                assert piece[:3] not in text
                assert piece.encode().hex() not in text.lower()
                assert all(str(int.from_bytes(piece.encode(), order)) not in text for order in ("big", "little"))

    def test_as_a_data_file(self, delta: Path, victim: Path, command: Any) -> None:
        point(delta, lambda add: add.update(path=quote(str(victim)), size=len(SECRET_TEXT)))
        for verb in (("plan", "--to", "iceberg"), ("convert", "--to", "iceberg", "--json", "-v"), ("scan",)):
            outcome = command(verb[0], delta, *verb[1:])
            assert outcome.code != 0
            self.shows_nothing(outcome.out, outcome.err)

    @pytest.mark.parametrize("offset", [0, 1, 4, 30, 66])
    def test_as_a_deletion_vector(self, offset: int, delta: Path, victim: Path, command: Any) -> None:
        lines = actions(delta)
        vector = {
            "storageType": "p",
            "pathOrInlineDv": str(victim),
            "offset": offset,
            "sizeInBytes": 34,
            "cardinality": 1,
        }
        for line in lines:
            if "add" in line:
                line["add"]["deletionVector"] = vector
            if "protocol" in line:
                line["protocol"] = {"minReaderVersion": 3, "minWriterVersion": 7,
                                    "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}  # fmt: skip
        (delta / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
        outcome = command("scan", delta)
        assert outcome.code != 0
        self.shows_nothing(outcome.out, outcome.err)
        # A file that begins like one of vectors.
        victim.write_bytes(b"\x01" + SECRET_TEXT.encode())
        outcome = command("scan", delta, "-v")
        assert outcome.code != 0
        self.shows_nothing(outcome.out, outcome.err)

    @pytest.mark.parametrize("part", ["list", "manifest"])
    def test_as_metadata_of_an_iceberg_table(
        self, part: str, delta: Path, victim: Path, command: Any, tmp_path: Path
    ) -> None:
        target = tmp_path / "ice"
        deltaberg.convert(delta, to="iceberg", target=target)
        path = target / "metadata/v1.metadata.json"
        metadata = json.loads(path.read_text())
        if part == "list":
            metadata["snapshots"][0]["manifest-list"] = str(victim)
        else:
            metadata["format-version"] = 1
            del metadata["snapshots"][0]["manifest-list"]
            metadata["snapshots"][0]["manifests"] = [str(victim)]
        path.write_text(json.dumps(metadata))
        for verb in (("plan", "--to", "delta"), ("scan",), ("inspect", "--json", "-v")):
            outcome = command(verb[0], target, *verb[1:])
            assert outcome.code != 0
            self.shows_nothing(outcome.out, outcome.err)
