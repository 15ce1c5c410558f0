"""A damaged log is read as a plain reading of its lines says, or refused with an error of ours; nothing in between."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaberg.delta.errors import CorruptLog
from deltaberg.delta.log.add_path import decode_path
from deltaberg.delta.table import DeltaTable
from deltaberg.errors import DeltabergError
from deltaberg.storage import open_storage

Log = Any
LiveFile = tuple[str, int, str | None]

_CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "delta"
OF_COMMITS = ["spark-dv_repeated", "spark-part_string", "spark-row_tracking"]
WITH_CHECKPOINTS = ["spark-ckpt_classic", "spark-ckpt_multipart", "spark-ckpt_v2_json", "spark-ckpt_v2_parquet"]
needs_corpus = pytest.mark.skipif(not _CORPUS.is_dir(), reason="../shared is absent")


class NotReadable(Exception):
    """The plain reading found a line that no reader can take for an action."""


def plain_reading(folder: Path) -> set[LiveFile]:
    """Live files by path, size and vector, from nothing but the lines of the commits, which must begin at 0."""
    commits = {int(path.stem): path for path in folder.glob("0*.json") if len(path.name) == 25}
    if sorted(commits) != list(range(len(commits))) or not commits:
        raise NotReadable
    live: dict[tuple[str, str | None], int] = {}
    for version in sorted(commits):
        removed, added = set(), {}
        lines = [line for line in commits[version].read_bytes().split(b"\n") if line.strip()]
        for line in lines:
            try:
                action = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise NotReadable from error
            if not isinstance(action, dict):
                raise NotReadable
            for name in ("add", "remove"):
                body = action.get(name)
                if body is None:
                    continue
                if not isinstance(body, dict) or not isinstance(body.get("path"), str):
                    raise NotReadable
                key = (_one_spelling(body["path"]), _vector(body.get("deletionVector")))
                if name == "remove":
                    removed.add(key)
                elif isinstance(body.get("size"), int):
                    added[key] = body["size"]
                else:
                    raise NotReadable
        live = {key: size for key, size in live.items() if key not in removed} | added
    return {(path, size, vector) for (path, vector), size in live.items()}


def _one_spelling(path: str) -> str:
    return decode_path(path).removeprefix("file://")


def _vector(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise NotReadable
    offset = "" if value.get("offset") is None else f"@{value['offset']}"
    return f"{value.get('storageType')}{value.get('pathOrInlineDv')}{offset}"


def our_reading(root: Path) -> set[LiveFile]:
    table = DeltaTable.open(str(root), open_storage())
    snapshot = table.snapshot()
    found: set[LiveFile] = set()
    for batch in snapshot.add_files():
        batch.validate(full=True)
        for row in batch.select(["path", "size", "deletion_vector"]).to_pylist():
            dv = row["deletion_vector"]
            offset = "" if dv is None or dv["offset"] is None else f"@{dv['offset']}"
            vector = None if dv is None else f"{dv['storage_type']}{dv['path_or_inline_dv']}{offset}"
            found.add((_one_spelling(row["path"]), row["size"], vector))
    for batch in snapshot.remove_files():
        batch.validate(full=True)
    return found


def is_subset_of_the_law(root: Path) -> None:
    """Our reading equals the plain one, or is an error of ours that says which table it is about."""
    ours = reading_or_error(root)
    if isinstance(ours, DeltabergError):
        assert str(ours)
        assert "\n" not in str(ours)
    else:
        assert ours == plain_reading(root / "_delta_log")


def reading_or_error(root: Path) -> set[LiveFile] | DeltabergError:
    try:
        return our_reading(root)
    except DeltabergError as error:
        return error


DAMAGE = st.sampled_from(["flip", "cut", "repeat", "blank", "delete", "drop line", "repeat line", "swap lines"])
WHERE = st.tuples(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True), st.integers(0, 255))


def damage(path: Path, kind: str, where: tuple[float, float, int]) -> None:
    content = bytearray(path.read_bytes())
    first, second, byte = where
    start, end = sorted((int(first * len(content)), int(second * len(content))))
    lines = bytes(content).splitlines(keepends=True)
    one, two = int(first * len(lines)), int(second * len(lines))
    match kind:
        case "flip":
            content[start] = byte
        case "cut":
            del content[start:]
        case "repeat":
            content[start:start] = content[start:end]
        case "blank":
            content[start : start + byte] = bytes(len(content[start : start + byte]))
        case "delete":
            path.unlink()
            return
        case "drop line":
            content = bytearray(b"".join(lines[:one] + lines[one + 1 :]))
        case "repeat line":
            content = bytearray(b"".join([*lines, lines[one]]))
        case "swap lines":
            lines[one], lines[two] = lines[two], lines[one]
            content = bytearray(b"".join(lines))
    path.write_bytes(content)


def damaged_copy(
    source: Path, folder: Path, pattern: str, which: float, kind: str, where: tuple[float, float, int]
) -> Path:
    root = folder / "copy"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(source, root / "_delta_log", copy_function=shutil.copyfile)
    for path in (root, *root.rglob("*")):
        path.chmod(0o755)
    files = sorted(path for path in (root / "_delta_log").glob(pattern) if path.is_file() and path.stat().st_size)
    damage(files[int(which * len(files))], kind, where)
    return root


ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)


@needs_corpus
@pytest.mark.parametrize("name", OF_COMMITS)
@given(which=st.floats(0, 1, exclude_max=True), kind=DAMAGE, where=WHERE)
@ONE_FOLDER
def test_a_log_of_commits(name: str, which: float, kind: str, where: tuple[float, float, int], tmp_path: Path) -> None:
    is_subset_of_the_law(damaged_copy(_CORPUS / name / "table" / "_delta_log", tmp_path, "*.json", which, kind, where))


@needs_corpus
@pytest.mark.parametrize("name", WITH_CHECKPOINTS)
@given(which=st.floats(0, 1, exclude_max=True), kind=DAMAGE, where=WHERE)
@ONE_FOLDER
def test_a_log_with_checkpoints(
    name: str, which: float, kind: str, where: tuple[float, float, int], tmp_path: Path
) -> None:
    source = _CORPUS / name / "table" / "_delta_log"
    root = damaged_copy(source, tmp_path, "**/*", which, kind, where)
    assert str(reading_or_error(root))


@given(kind=DAMAGE, which=st.floats(0, 1, exclude_max=True), where=WHERE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_a_log_of_our_own(log: Log, kind: str, which: float, where: tuple[float, float, int], tmp_path: Path) -> None:
    if not list(log.folder.iterdir()):
        log.create(log.add("a%20b", stats='{"numRecords":1}'), log.add("b", tags={"x": "y"}))
        log.commit(
            1, {"commitInfo": {}}, log.remove("a b"), log.add("b", deletionVector=log.vector(), size=3), log.remove("b")
        )
        log.commit(2, log.add("c"), {"txn": {"appId": "a", "version": 1}}, log.add("file:///x/y"))
        log.commit(3, log.remove("/x/y"), log.remove("b", deletionVector=log.vector()))
    is_subset_of_the_law(damaged_copy(log.folder, tmp_path, "*.json", which, kind, where))


def test_depth_without_end_is_refused(log: Log) -> None:
    log.create()
    deep = '{"add":{"path":"x","size":1,"z":' + "[" * 3_000_000
    log.commit(1, deep)
    with pytest.raises(CorruptLog):
        our_reading(log.root)


def test_a_line_without_end_is_refused(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltaberg.delta.log.commit_reader._PIECE_BYTES", 1000)
    monkeypatch.setattr("deltaberg.delta.log.commit_reader._LONGEST_LINE", 5000)
    log.create()
    log.write(f"{1:020d}.json", b'{"add":{"path":"' + b"x" * 100_000)
    with pytest.raises(CorruptLog, match="line 1 is longer than 5000 bytes"):
        our_reading(log.root)
