"""A fault at any operation of any kind of sync: docs/reliability.md says what has to hold, and ``make campaign`` runs all of
them; here are some."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.fault_storage import FaultStorage, Mode
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
    """Four of each, at different places of the way and in different modes from kind to kind."""
    assert len(syncs) == KINDS
    proof = SyncProof(syncs[number])
    whole = FaultStorage(None)
    proof.pending.run(whole)
    proof.start_again()
    found = []
    for turn in range(4):
        mode = list(Mode)[(3 * number + 5 * turn) % len(Mode)]
        reached = [operation for operation, _ in whole.trace if mode.reaches(operation)]
        at = len(reached) * (5 * turn + number % 5) // 20
        storage = FaultStorage(mode, at)
        defects = sync_fault(proof, storage)
        assert storage.fired is not None
        found += [f"{mode.name} at {at}, {storage.fired}: {each}" for each in defects]
    assert found == []


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
