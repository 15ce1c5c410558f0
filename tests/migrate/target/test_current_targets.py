"""A target is called current only where the files that it needs are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.errors import Conflict
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.translate.options import ConvertOptions
from tests.fault_storage import FaultStorage


@pytest.fixture
def table(tmp_path: Path, write_delta: Any, delete_from_delta: Any) -> Path:
    folder: Path = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), tmp_path / "table")
    write_delta(pa.table({"id": [4, 5], "s": ["c", "d"]}), folder)
    delete_from_delta(folder, {0: [0], 1: [1]})
    return folder


class TestIceberg:
    @pytest.fixture(params=["latest", "all"])
    def made(self, table: Path, opened: Any, request: Any) -> ConvertResult:
        return self.again(table, opened, request.param)

    @staticmethod
    def again(table: Path, opened: Any, history: str, storage: Any = None) -> ConvertResult:
        options = ConvertOptions(format_version=3, history=history)  # type: ignore[arg-type]
        return convert(opened(table, storage=storage), to="iceberg", options=options)

    @staticmethod
    def history(made: ConvertResult) -> str:
        return "all" if len(made.commits) > 1 else "latest"

    def test_whose_files_are_there_is_current_at_the_cost_of_a_few_requests(
        self, made: ConvertResult, table: Path, opened: Any
    ) -> None:
        storage = FaultStorage()
        source = opened(table, storage=storage)
        read = len(storage.trace)
        options = ConvertOptions(format_version=3, history=self.history(made))  # type: ignore[arg-type]
        assert convert(source, to="iceberg", options=options).already_current
        listed = [place for operation, place in storage.trace[read:] if operation == "list"]
        assert listed.count(f"{made.target}/metadata") == 2
        assert len(storage.trace) - read < 16
        assert not [operation for operation, _ in storage.trace[read:] if operation in ("put", "put_if_absent")]

    @pytest.mark.parametrize("pattern", ["metadata/snap-*.avro", "metadata/*-m*.avro", "data/*.puffin"])
    def test_that_lacks_any_file_is_not(
        self, made: ConvertResult, table: Path, opened: Any, pattern: str, command: Any
    ) -> None:
        for path in sorted(Path(made.target).glob(pattern)):
            content = path.read_bytes()
            path.unlink()
            if self.history(made) == "latest" or "-m" not in path.name:
                wanted = f"{path} is missing or not whole"
            else:
                wanted = r"missing"
            try:
                with pytest.raises(Conflict, match=wanted) as error:
                    self.again(table, opened, self.history(made))
            finally:
                path.write_bytes(content)
            assert f"take the table away with deltaberg rollback {made.target}" in str(error.value)
        assert self.again(table, opened, self.history(made)).already_current
        path.unlink()
        told = command("convert", table, "--to", "iceberg", "--format-version", "3", "--history", self.history(made))
        assert told.code == 5

    def test_that_has_half_a_manifest_is_not(self, made: ConvertResult, table: Path, opened: Any) -> None:
        path = max(Path(made.target).glob("metadata/*-m*.avro"), key=lambda each: each.stat().st_mtime_ns)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(Conflict, match="missing or not whole"):
            self.again(table, opened, self.history(made))

    @pytest.mark.parametrize("content", [None, "", "0", "not a number"])
    def test_whose_hint_is_stale_gets_a_right_one(
        self, made: ConvertResult, table: Path, opened: Any, content: str | None, command: Any
    ) -> None:
        hint = Path(made.target) / "metadata" / "version-hint.text"
        assert hint.read_text() == "1"
        hint.unlink() if content is None else hint.write_text(content)
        done = self.again(table, opened, self.history(made))
        assert done.already_current
        assert done.repaired == (str(hint),)
        assert hint.read_text() == "1"
        hint.unlink()
        told = command("convert", table, "--to", "iceberg", "--format-version", "3", "--history", self.history(made))
        assert told.code == 0
        assert f"deltaberg: put right: {hint}\n" in told.err
        assert self.again(table, opened, self.history(made)).repaired == ()


def test_rewritten_files_of_an_iceberg_target_are_looked_for(tmp_path: Path, opened: Any) -> None:
    from tests.migrate.faults import write_int96

    folder = tmp_path / "legacy"
    write_int96(str(folder))
    options = ConvertOptions(strict=True)
    made = convert(opened(folder), to="iceberg", options=options)
    assert made.rewritten_files == 2
    assert convert(opened(folder), to="iceberg", options=options).already_current
    path = sorted(Path(made.target).glob("data/rewritten-*.parquet"))[0]
    path.unlink()
    with pytest.raises(Conflict, match=f"{path} is missing"):
        convert(opened(folder), to="iceberg", options=options)


class TestDelta:
    @pytest.mark.parametrize("history", ["latest", "all"])
    def test_that_lacks_a_vector_is_not_current(self, tmp_path: Path, table: Path, opened: Any, history: str) -> None:
        version_3 = ConvertOptions(format_version=3)
        source = convert(opened(table), to="iceberg", target=str(tmp_path / "iceberg"), options=version_3).target
        options = ConvertOptions(history=history)  # type: ignore[arg-type]
        target = tmp_path / "target"
        convert(opened(source), to="delta", target=str(target), options=options)
        assert convert(opened(source), to="delta", target=str(target), options=options).already_current
        (vector,) = (target / "_deltaberg").glob("deletion_vector_*.bin")
        vector.unlink()
        with pytest.raises(Conflict, match=f"{vector} is missing or not whole"):
            convert(opened(source), to="delta", target=str(target), options=options)

    def test_that_lacks_a_rewritten_file_is_not_current(self, tmp_path: Path, opened: Any) -> None:
        from tests.migrate.faults import iceberg

        source = iceberg(tmp_path, "renamed", renamed=True)
        options = ConvertOptions(former_names="rewrite")
        made = convert(opened(source), to="delta", options=options)
        assert made.rewritten_files == 1
        assert convert(opened(source), to="delta", options=options).already_current
        (path,) = Path(made.target.removeprefix("file://")).glob("_deltaberg/rewritten-*.parquet")
        path.unlink()
        with pytest.raises(Conflict, match=f"{path} is missing"):
            convert(opened(source), to="delta", options=options)
