"""What convert promises besides the rows: reruns, targets that are taken, and nothing left behind when it fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.transaction import Transaction
from deltaberg.errors import CommitStateUnknown, Conflict, Unsupported, UsageError
from deltaberg.iceberg.table import Table
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.plan import plan
from deltaberg.storage import StorageError, open_storage
from deltaberg.translate.options import ConvertOptions

CLOCK_MS = 1_700_000_000_000
FORMATS = ["iceberg", "delta"]
Convert = Callable[..., ConvertResult]


class FailingStorage:
    """A Storage whose n-th write fails, counted from 0; ``after`` it was done, or instead of it. Counts its writes."""

    def __init__(self, fails_at: int | None = None, *, after: bool = False) -> None:
        self._real = open_storage()
        self.fails_at, self.after, self.writes, self.failed = fails_at, after, 0, ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def _fails(self, location: str) -> bool:
        self.writes += 1
        fails = self.writes - 1 == self.fails_at
        self.failed = location if fails else self.failed
        return fails

    def _write(self, write: Callable[[str, bytes], None], location: str, data: bytes) -> None:
        fails = self._fails(location)
        if not fails or self.after:
            write(location, data)
        if fails:
            raise StorageError("no answer from the store", path=location)

    def put(self, location: str, data: bytes) -> None:
        self._write(self._real.put, location, data)

    def put_if_absent(self, location: str, data: bytes) -> None:
        self._write(self._real.put_if_absent, location, data)

    def create(self, location: str, *, durable: bool = False) -> AbstractContextManager[pa.NativeFile]:
        return self._created(location, durable)

    @contextmanager
    def _created(self, location: str, durable: bool) -> Iterator[pa.NativeFile]:
        fails = self._fails(location)
        with self._real.create(location, durable=durable) as sink:
            yield sink
            if fails and not self.after:
                raise StorageError("no answer from the store", path=location)
        if fails:
            raise StorageError("no answer from the store", path=location)


@pytest.fixture(params=FORMATS)
def to(request: pytest.FixtureRequest) -> str:
    """The target's format."""
    return str(request.param)


@pytest.fixture
def source_place(tmp_path: Path, to: str, write_delta: Any, delete_from_delta: Any, opened: Any) -> str:
    """A table of the other format, of two files with deleted rows in both."""
    folder = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), tmp_path / "first")
    write_delta(pa.table({"id": [4, 5], "s": ["c", "d"]}), folder)
    delete_from_delta(folder, {0: [0], 1: [1]})
    if to == "iceberg":
        return str(folder)
    options = ConvertOptions(format_version=2)
    return convert(opened(folder), to="iceberg", target=str(tmp_path / "second"), options=options).target


@pytest.fixture
def run(tmp_path: Path, to: str, source_place: str, opened: Any) -> Convert:
    """Convert the source to ``tmp_path/target``."""

    def call(*, storage: Any = None, place: str | None = None, **options: Any) -> ConvertResult:
        return convert(
            opened(place or source_place, storage=storage),
            to=to,
            target=str(tmp_path / "target"),
            options=ConvertOptions(**options),
            clock_ms=CLOCK_MS,
        )

    return call


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class TestRerun:
    def test_does_nothing_and_says_so(self, tmp_path: Path, run: Convert) -> None:
        first = run()
        assert not first.already_current
        assert len(first.commits) == 1
        before = files_below(tmp_path)
        again = run()
        assert again.already_current
        assert (again.commits, again.files, again.rows, again.rewritten_files) == ((), 0, 0, 0)
        assert (again.target, again.target_metadata) == (first.target, first.target_metadata)
        assert files_below(tmp_path) == before

    def test_with_other_options_is_a_conflict(self, tmp_path: Path, run: Convert, to: str) -> None:
        run()
        before = files_below(tmp_path)
        other = {"format_version": 2} if to == "iceberg" else {"former_names": "rewrite"}
        with pytest.raises(
            Conflict, match=r"it was converted with the options \{\} \(expected .*choose another --target"
        ):
            run(**other)
        assert files_below(tmp_path) == before

    def test_of_an_advanced_source_is_a_conflict_that_names_both_states(
        self,
        tmp_path: Path,
        run: Convert,
        to: str,
        source_place: str,
        write_delta: Any,
        delete_from_iceberg: Any,
        opened: Any,
    ) -> None:
        run()
        if to == "iceberg":
            write_delta(pa.table({"id": [6], "s": ["e"]}), Path(source_place))
            words = "it holds version 2 of delta table .*expected version 3 of delta table"
        else:
            delete_from_iceberg(Table.open(source_place, open_storage()).metadata_location, {0: [1]})
            words = "it holds snapshot .* of iceberg table .*expected snapshot"
        before = files_below(tmp_path)
        with pytest.raises(Conflict, match=words) as caught:
            run()
        assert "it is behind; bring it up to date with deltaberg sync" in caught.value.message
        assert caught.value.exit_code == 5
        assert files_below(tmp_path) == before


class TestATakenTarget:
    def test_that_holds_a_table_of_somebody_else(
        self, tmp_path: Path, run: Convert, to: str, write_delta: Any, opened: Any
    ) -> None:
        if to == "delta":
            write_delta(pa.table({"x": [1]}), tmp_path / "target")
            words = "it holds another table"
        else:
            other = write_delta(pa.table({"x": [1]}), tmp_path / "other")
            convert(opened(other), to="iceberg", target=str(tmp_path / "target"))
            words = "it holds version 0 of delta table .*expected version 2 of delta table"
        before = files_below(tmp_path / "target")
        with pytest.raises(Conflict, match=words) as caught:
            run()
        assert caught.value.path == str(tmp_path / "target")
        assert files_below(tmp_path / "target") == before

    def test_that_somebody_else_committed_to(
        self, tmp_path: Path, run: Convert, to: str, delete_from_delta: Any, delete_from_iceberg: Any
    ) -> None:
        done = run()
        if to == "delta":
            delete_from_delta(tmp_path / "target", {0: [1]})
        else:
            table = Table.open(done.target, open_storage())
            with table.transaction() as transaction:
                transaction.snapshot("delete").delete_everything()
                transaction.commit()
        before = files_below(tmp_path / "target")
        with pytest.raises(Conflict, match="somebody else has committed to it"):
            run()
        assert files_below(tmp_path / "target") == before

    def test_inside_a_delta_table_where_vacuum_deletes_it(self, tmp_path: Path, write_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1]}))
        before = files_below(folder)
        for below in ("iceberg", "a/b"):
            with pytest.raises(UsageError, match=r"VACUUM of the Delta table .* deletes visible folders"):
                convert(opened(folder), to="iceberg", target=str(folder / below))
        assert files_below(folder) == before


class TestAStoreThatFails:
    """At whichever write: no table, no stray file, and the next run succeeds."""

    @pytest.mark.parametrize("after", [False, True], ids=["instead", "afterwards"])
    def test_leaves_nothing(self, tmp_path: Path, run: Convert, to: str, after: bool) -> None:
        for options in [{"format_version": 2}, {"format_version": 3}] if to == "iceberg" else [{}]:
            self.fail_everywhere(tmp_path / "target", run, to, after, options)

    def fail_everywhere(self, target: Path, run: Convert, to: str, after: bool, options: dict[str, Any]) -> None:
        whole = FailingStorage()
        wanted = run(storage=whole, **options)
        names = names_without_ids(files_below(target))
        shutil.rmtree(target)
        assert whole.writes > 3
        outcomes = []
        for place in range(whole.writes):
            failing = FailingStorage(place, after=after)
            try:
                done = run(storage=failing, **options)
            except StorageError:
                outcomes.append("failed")
                assert not target.exists(), f"write {place} of {whole.writes}"
                done = run(**options)
            else:
                # Only what comes after the commit, or a commit that turns out to have been done, may fail unseen.
                outcomes.append("done")
                assert after or place >= whole.writes - 2, f"write {place} of {whole.writes} failed unseen"
            assert (done.rows, done.files, done.commits) == (wanted.rows, wanted.files, wanted.commits)
            assert names_without_ids(files_below(target)) <= names
            assert run(**options).already_current
            shutil.rmtree(target)
        assert outcomes.count("failed") >= whole.writes - 3

    def test_when_nobody_can_tell_the_outcome_every_file_stays(self, tmp_path: Path, run: Convert, to: str) -> None:
        class Unknowable(FailingStorage):
            """The commit is done, the answer is lost, and from then on nothing can be read or deleted."""

            lost = False

            def put_if_absent(self, location: str, data: bytes) -> None:
                self._real.put_if_absent(location, data)
                if location.endswith(".metadata.json") or (location.endswith(".json") and "_delta_log" in location):
                    self.lost = True
                    raise StorageError("connection lost", path=location)

            def get(self, location: str) -> bytes:
                if self.lost:
                    raise StorageError("connection lost", path=location)
                return self._real.get(location)

            def head(self, location: str) -> Any:
                if self.lost:
                    raise StorageError("connection lost", path=location)
                return self._real.head(location)

            def exists(self, location: str) -> bool:
                if self.lost:
                    raise StorageError("connection lost", path=location)
                return self._real.exists(location)

        with pytest.raises(CommitStateUnknown):
            run(storage=Unknowable())
        assert files_below(tmp_path / "target")
        assert run().already_current


def names_without_ids(names: Any) -> set[str]:
    """File names with what is drawn anew in every run left out."""
    return {f"{Path(name).parent}/*{Path(name).suffix}" for name in names}


class TestThePlanDocument:
    def test_beside_the_target_is_what_convert_returns(self, tmp_path: Path, run: Convert) -> None:
        done = run()
        (document,) = (tmp_path / "target" / "_deltaberg").glob("plan-*.json")
        assert json.loads(document.read_text(encoding="utf-8")) == json.loads(json.dumps(done.plan.to_json()))
        assert done.plan.target["location"] == str(tmp_path / "target")

    def test_says_what_plan_says(self, run: Convert, source_place: str, to: str, opened: Any) -> None:
        planned = plan(opened(source_place), to=to)
        done = run()
        assert done.plan.items == planned.items
        assert (done.plan.files, done.plan.rows, done.plan.bytes) == (planned.files, planned.rows, planned.bytes)
        assert {**planned.target, "location": done.target} == done.plan.target

    def test_planning_writes_nothing(self, tmp_path: Path, source_place: str, to: str, opened: Any) -> None:
        before = files_below(tmp_path)
        storage = FailingStorage(0)
        plan(opened(source_place, storage=storage), to=to)
        assert storage.writes == 0
        assert files_below(tmp_path) == before


class TestRefusal:
    def test_writes_nothing_and_names_the_code(
        self, tmp_path: Path, write_delta: Any, delete_from_delta: Any, opened: Any
    ) -> None:
        folder = write_delta(pa.table({"id": [1, 2]}))
        delete_from_delta(folder, {0: [0]})
        before = files_below(tmp_path)
        with pytest.raises(Unsupported, match="Cannot convert: deletes-need-version-2: ") as caught:
            convert(opened(folder), to="iceberg", options=ConvertOptions(format_version=1))
        assert (caught.value.feature, caught.value.exit_code) == ("deletes-need-version-2", 3)
        assert files_below(tmp_path) == before

    def test_of_the_same_format(self, source_place: str, to: str, opened: Any) -> None:
        source = opened(source_place)
        with pytest.raises(UsageError, match="it is a table of that format already"):
            convert(source, to=source.format)


@pytest.mark.parametrize("to", ["delta"], indirect=True)
def test_a_committed_version_stands_when_its_checkpoint_is_interrupted(
    run: Convert, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Transaction) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "checkpoint_when_due", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run()
    assert (tmp_path / "target" / "_delta_log" / f"{0:020d}.json").exists()
    assert run().already_current


@pytest.mark.parametrize("to", ["delta"], indirect=True)
def test_a_committed_version_whose_checkpoint_fails_is_told(
    tmp_path: Path, source_place: str, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    def full(self: Transaction) -> None:
        raise StorageError("the disk is full", path="checkpoint.parquet")

    target = tmp_path / "target"
    with monkeypatch.context() as patched:
        patched.setattr(Transaction, "checkpoint", full)
        patched.setattr(Transaction.checkpoint_when_due, "__kwdefaults__", {"many_files": 1})
        outcome = command("convert", source_place, "--to", "delta", "--target", target, "--json")
    assert outcome.code == 0
    (warning,) = outcome.document["warnings"]
    assert (warning["code"], warning["severity"], warning["what"]) == ("checkpoint-not-written", "warning", "version 0")
    assert "(the disk is full [file checkpoint.parquet])" in warning["reason"]
    (line,) = outcome.err.splitlines()
    assert line.startswith("deltaberg: warning: checkpoint-not-written: version 0: The Delta version is committed")
    assert "the disk is full" in line
    assert outcome.document["commits"][0]["target"] == 0
    source, written = (command("scan", each, "--json").document["rows"] for each in (source_place, target))
    assert sorted(row["id"] for row in written) == sorted(row["id"] for row in source)
    again = command("convert", source_place, "--to", "delta", "--target", target, "--json")
    assert (again.code, again.err) == (0, "")
    assert (again.document["already_current"], again.document["warnings"]) == (True, [])
