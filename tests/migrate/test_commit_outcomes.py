"""The commit of a conversion: once its request is sent, nothing is rolled back before its outcome is known."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.delta.transaction import Transaction
from deltaberg.errors import CommitStateUnknown, Conflict, DeltabergError
from deltaberg.migrate.convert import ConvertResult, convert
from deltaberg.migrate.target.undo_storage import UndoStorage
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.storage.commit_put import CommitIntent, PutOutcome, WholeContent, put_commit
from tests.fault_storage import WRITES, FaultStorage, Killed, Mode, every_fault

CLOCK_MS = 1_700_000_000_000


@pytest.fixture(params=["iceberg", "delta"])
def to(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def source_place(tmp_path: Path, to: str, write_delta: Any, delete_from_delta: Any, opened: Any) -> str:
    """A table of the other format with deleted rows."""
    folder = write_delta(pa.table({"id": [1, 2, 3], "s": ["a", "b", None]}), tmp_path / "first")
    delete_from_delta(folder, {0: [0]})
    if to == "iceberg":
        return str(folder)
    return convert(opened(folder), to="iceberg", target=str(tmp_path / "second")).target


def after_the_commit(operation: str, location: str) -> bool:
    """Whether a write is the commit's or comes after it."""
    name = location.rpartition("/")[2]
    known = ("version-hint.text", "_last_checkpoint", f"{0:020}.json", f"{0:020}.checkpoint.parquet")
    return operation in WRITES and (name.endswith((".metadata.json", ".crc")) or name in known)


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode.when.name == "AFTER"], ids=lambda mode: mode.name)
def test_what_stands_is_never_taken_back(
    tmp_path: Path,
    source_place: str,
    to: str,
    opened: Any,
    mode: Mode,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[..., None],
) -> None:
    monkeypatch.setitem(Transaction.checkpoint_when_due.__kwdefaults__, "many_files", 1)
    for number, storage in enumerate(every_fault(mode, only=after_the_commit)):
        target = tmp_path / f"t{number}"
        try:
            convert(opened(source_place, storage=storage), to=to, target=str(target), clock_ms=CLOCK_MS)
        except (CommitStateUnknown, KeyboardInterrupt, Killed):
            assert storage.fired
        assert verify(opened(source_place), opened(target), rows=True).equal, storage.fired
        again = convert(opened(source_place), to=to, target=str(target), clock_ms=CLOCK_MS)
        assert again.already_current, storage.fired
    assert number >= (1 if mode is Mode.TAKEN_AFTER else 2)
    record_property(f"faults of a commit and what follows it, to {to}", number)


class Overtaken(FaultStorage):
    """At one of its operations somebody else does ``meanwhile`` first."""

    def __init__(self, at: int, meanwhile: Callable[[], Any]) -> None:
        super().__init__()
        self._at, self._meanwhile, self.overtaken = at, meanwhile, False

    def _falls(self, operation: str, location: str) -> bool:
        if len(self.trace) == self._at and not self.overtaken:
            self.overtaken = True
            self._meanwhile()
        return super()._falls(operation, location)


def test_the_loser_of_a_race_is_told_so_wherever_it_is_overtaken(
    tmp_path: Path, source_place: str, to: str, opened: Any, record_property: Callable[..., None]
) -> None:
    def attempt(target: Path, **options: Any) -> ConvertResult | None:
        """None: the command would say so with exit code 5."""
        try:
            return convert(opened(source_place, **options), to=to, target=str(target), clock_ms=CLOCK_MS)
        except Conflict:
            return None

    conflicts = 0
    for at in itertools.count():
        target = tmp_path / f"t{at}"
        others: list[ConvertResult | None] = []
        storage = Overtaken(at, lambda place=target, found=others: found.append(attempt(place)))  # type: ignore[misc]
        done = [attempt(target, storage=storage), *others]
        assert [each.already_current for each in done if each is not None].count(False) == 1, storage.trace[-1]
        conflicts += done[0] is None
        assert verify(opened(source_place), opened(target), rows=True).equal, storage.trace[-1]
        if not others:
            break
    assert conflicts > 3
    assert Conflict.exit_code == 5
    record_property(f"faults: overtaken at every operation, to {to}", at)


class TestRecordingStorage:
    """What is written through it goes with ``discard``, unless a commit may stand."""

    def begun(self, folder: Path, mode: Mode | None, *, remote: bool = False) -> tuple[UndoStorage, CommitIntent]:
        real = FaultStorage(mode, only=lambda operation, location: operation == "put_if_absent")
        if remote:
            real.resolve = lambda location: f"s3://bucket{location}"  # type: ignore[method-assign]
        storage = UndoStorage(real)
        storage.put(f"{folder}/part", b"part")
        return storage, CommitIntent(storage)

    def put(self, folder: Path, storage: UndoStorage, intent: CommitIntent) -> PutOutcome:
        return put_commit(storage, f"{folder}/commit", WholeContent(b"mine"), intent)

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    @pytest.mark.parametrize("mode", [None, Mode.LOST_ANSWER, Mode.TAKEN_AFTER, Mode.MEMORY_AFTER])
    def test_a_commit_that_stands(self, tmp_path: Path, mode: Mode | None) -> None:
        folder = tmp_path / "t"
        storage, intent = self.begun(folder, mode)
        assert self.put(folder, storage, intent) is PutOutcome.COMMITTED
        assert (intent.stands, storage.has_kept, storage.undecided) == (True, True, ())
        storage.discard()
        assert self.names(folder) == ["commit", "part"]

    def test_an_interrupt_after_the_request(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        storage, intent = self.begun(folder, Mode.INTERRUPT_AFTER)
        with pytest.raises(KeyboardInterrupt):
            self.put(folder, storage, intent)
        assert (intent.stands, storage.has_kept) == (True, True)
        storage.discard()
        assert self.names(folder) == ["commit", "part"]

    def test_an_interrupt_before_a_local_request(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        storage, intent = self.begun(folder, Mode.INTERRUPT_BEFORE)
        with pytest.raises(KeyboardInterrupt):
            self.put(folder, storage, intent)
        assert (intent.may_stand, storage.has_kept, storage.undecided) == (False, False, ())
        storage.discard()
        assert self.names(folder) == []

    @pytest.mark.parametrize("mode", [Mode.INTERRUPT_BEFORE, Mode.ERROR_BEFORE, Mode.MEMORY_BEFORE])
    def test_a_request_to_a_bucket_that_may_still_be_on_its_way(self, tmp_path: Path, mode: Mode) -> None:
        folder = tmp_path / "t"
        storage, intent = self.begun(folder, mode, remote=True)
        with pytest.raises(KeyboardInterrupt if mode is Mode.INTERRUPT_BEFORE else CommitStateUnknown):
            self.put(folder, storage, intent)
        assert (intent.may_stand, intent.is_known) == (True, False)
        assert storage.undecided == (f"{folder}/commit",)
        storage.discard()
        assert self.names(folder) == ["part"]

    def test_a_request_that_a_bucket_denies(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        storage, intent = self.begun(folder, Mode.DENIED, remote=True)
        with pytest.raises(DeltabergError, match="DENIED at put_if_absent"):
            self.put(folder, storage, intent)
        storage.discard()
        assert self.names(folder) == []

    def test_another_writers_file(self, tmp_path: Path) -> None:
        folder = tmp_path / "t"
        storage, intent = self.begun(folder, None)
        open_storage().put(f"{folder}/commit", b"them")
        assert self.put(folder, storage, intent) is PutOutcome.TAKEN
        storage.discard()
        assert self.names(folder) == ["commit"]
        assert (folder / "commit").read_bytes() == b"them"
