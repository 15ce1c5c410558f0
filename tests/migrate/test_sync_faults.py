"""A fault at any operation of any kind of sync: docs/reliability.md says what has to hold, and ``make campaign`` runs all of
them; here are some."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from functools import partial
from typing import Any

import pytest

from deltaberg.errors import Interrupted
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.existing_target import existing_target
from deltaberg.migrate.target.orphans import delete_all_runs
from deltaberg.migrate.target.run_document import RunId
from deltaberg.storage import open_storage
from tests.fault_storage import FaultStorage, Killed, Mode, files_below
from tests.migrate.sync_faults import PendingSync, SyncProof, pending_syncs, sync_fault

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

KINDS = 12


@pytest.fixture(scope="module")
def syncs(
    tmp_path_factory: pytest.TempPathFactory, delete_from_delta: Any, delete_from_iceberg: Any
) -> list[PendingSync]:
    return list(pending_syncs(tmp_path_factory.mktemp("faults"), delete_from_delta, delete_from_iceberg))


@pytest.mark.parametrize("number", range(KINDS))
def test_some_faults_of_every_kind_of_sync(number: int, syncs: list[PendingSync]) -> None:
    """Two of each, at different places of the way and in different modes from kind to kind."""
    assert len(syncs) == KINDS
    proof = SyncProof(syncs[number])
    whole = FaultStorage(None)
    proof.pending.run(whole)
    proof.start_again()
    found = []
    for turn in range(2):
        mode = list(Mode)[(5 * number + 8 * turn + 3) % len(Mode)]
        reached = [operation for operation, _ in whole.trace if mode.reaches(operation)]
        at = len(reached) * (5 * turn + number % 5) // 10
        storage = FaultStorage(mode, at)
        defects = sync_fault(proof, storage)
        assert storage.fired is not None
        found += [f"{mode.name} at {at}, {storage.fired}: {each}" for each in defects]
    assert found == []


def at_commit(operation: str, location: str) -> bool:
    return operation == "put_if_absent" and location.endswith(".json")


@pytest.mark.parametrize("number", [2, 4, 5, 7, 11])
def test_files_of_a_sync_that_died_behind_its_commit_stay_and_of_one_that_died_before_go(
    number: int, syncs: list[PendingSync], independent: Any
) -> None:
    """The next sync that commits looks what is listed; so does a conversion that is told to clean up."""
    proof = SyncProof(syncs[number])
    for mode in (Mode.KILLED_BEFORE, Mode.KILLED_AFTER):
        storage = FaultStorage(mode, 0, only=at_commit)
        with pytest.raises(Killed):
            proof.pending.run(storage)
    documents = [each.rpartition("/")[2] for each in files_below(proof.root) if "_deltaberg/run-" in each]
    assert len(documents) == 2
    existing = existing_target(open_storage(), proof.root, proof.pending.to)
    assert existing is not None
    committed = RunId.of_plan(existing.plan_name)
    removed = delete_all_runs(open_storage(), proof.root, proof.pending.to, committed=committed)
    assert removed, "what the first one left"
    assert not [each for each in files_below(proof.root) if "_deltaberg/run-" in each]
    assert proof.after_fault() == []
    assert proof.read_by_others(independent) == []
    assert proof.after_next_run() == []
    assert proof.rolled_back() == []
    proof.start_again()


@pytest.mark.parametrize("number", [1, 6])
def test_an_interrupt_says_what_stands(number: int, syncs: list[PendingSync]) -> None:
    proof = SyncProof(syncs[number])
    for mode, outcome in ((Mode.INTERRUPT_BEFORE, "nothing-written"), (Mode.INTERRUPT_AFTER, "stands")):
        place = 0 if outcome == "nothing-written" else len(proof.commits) - 1
        place = 0 if proof.pending.to is TableFormat.ICEBERG else place
        with pytest.raises(Interrupted) as caught:
            proof.pending.run(FaultStorage(mode, place, only=at_commit))
        assert (caught.value.outcome, caught.value.table) == (outcome, proof.root)
        proof.start_again()
    if len(proof.commits) > 1 and proof.pending.to is TableFormat.DELTA:
        with pytest.raises(Interrupted, match=r"stands up to snapshot .* the next run goes on there") as caught:
            proof.pending.run(FaultStorage(Mode.INTERRUPT_BEFORE, 1, only=at_commit))
        assert caught.value.outcome == "stands-in-part"
        proof.start_again()


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(KINDS))
def test_every_fault_of_every_kind_of_sync(
    number: int, syncs: list[PendingSync], record_property: Any, capfd: Any, independent: Any
) -> None:
    proof = SyncProof(syncs[number])
    counts: Counter[str] = Counter()
    found: list[str] = []
    every = int(os.environ.get("DELTABERG_CAMPAIGN_EVERY", "1"))
    for place, mode in enumerate(Mode):
        for at in itertools.count(place % every, every):
            storage = FaultStorage(mode, at)
            look = partial(proof.read_by_others, independent) if counts.total() % 40 == 0 else None
            defects = sync_fault(proof, storage, look=look, roll_back=counts.total() % 5 == 0)
            if storage.fired is None:
                break
            counts[mode.name] += 1
            found += [f"{mode.name} at {at}, {storage.fired}: {each}" for each in defects]
    record_property(f"faults {proof.pending.name}", counts.total())
    with capfd.disabled():
        print(f"\n{proof.pending.name}: {counts.total()} faults, {len(found)} defects", flush=True)
        for line in found[:100]:
            print("   ", line[:600], flush=True)
    assert found == []
