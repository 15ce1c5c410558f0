"""A fault at any operation of any kind of conversion: docs/reliability.md says what has to hold, and ``make campaign`` runs
all of them; here are some."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from deltaberg.migrate.source import TableFormat
from deltaberg.translate.options import ConvertOptions
from tests.buckets import buckets
from tests.fault_storage import FaultStorage, Mode
from tests.migrate.faults import Conversion, Proof, fault, local_conversions, remote_conversions

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

KINDS = 14


@pytest.fixture(scope="module")
def conversions(
    tmp_path_factory: pytest.TempPathFactory, delete_from_delta: Any, delete_from_iceberg: Any
) -> list[Conversion]:
    return list(local_conversions(tmp_path_factory.mktemp("faults"), delete_from_delta, delete_from_iceberg))


@pytest.mark.parametrize("number", range(KINDS))
def test_some_faults_of_every_kind_of_conversion(number: int, conversions: list[Conversion]) -> None:
    """Three of each, at different places of the way and in different modes from kind to kind."""
    assert len(conversions) == KINDS
    conversion = conversions[number]
    proof = Proof(conversion)
    found = []
    for turn in range(3):
        mode = list(Mode)[(3 * number + 7 * turn) % len(Mode)]
        whole = FaultStorage(None)
        conversion.run(whole)
        assert proof.rolled_back() == []
        reached = [operation for operation, _ in whole.trace if mode.reaches(operation)]
        at = len(reached) * (5 * turn + number % 5) // 15
        storage = FaultStorage(mode, at)
        defects = fault(proof, storage)
        assert storage.fired is not None
        found += [f"{mode.name} at {at}, {storage.fired}: {each}" for each in defects]
    assert found == []


@pytest.mark.parametrize("number", range(3))
def test_faults_at_the_commit_in_a_bucket(number: int, bucket: Callable[[], str], delete_from_delta: Any) -> None:
    proof = Proof(list(remote_conversions(bucket(), delete_from_delta))[number])
    mode = (Mode.TAKEN_AFTER, Mode.KILLED_BEFORE, Mode.LOST_ANSWER)[number]
    storage = FaultStorage(mode, 0, only=lambda operation, _: operation == "put_if_absent")
    assert fault(proof, storage) == []
    assert storage.fired is not None


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(KINDS))
def test_every_fault_of_every_kind_of_conversion(
    number: int, conversions: list[Conversion], record_property: Any, capfd: Any, independent: Any
) -> None:
    with capfd.disabled():
        run_all(conversions[number], list(Mode), record_property, reader=independent)


@pytest.mark.campaign
@pytest.mark.parametrize("number", range(3))
def test_every_fault_in_a_bucket(
    number: int, bucket: Callable[[], str], delete_from_delta: Any, record_property: Any, capfd: Any
) -> None:
    conversion = list(remote_conversions(bucket(), delete_from_delta))[number]
    modes = [mode for mode in Mode if "MIDWAY" not in mode.name and "MEMORY" not in mode.name]
    with capfd.disabled():
        run_all(conversion, modes, record_property)


KILLED = """
import json, os, signal, sys
import deltaberg.api
from deltaberg.migrate import convert
place, to, target, options, left = json.loads(sys.argv[1])
options = deltaberg.ConvertOptions(**options)

def count(frame, event, argument):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

sys.setprofile(count)
deltaberg.convert(place, to=to, target=target, options=options)
sys.setprofile(None)
print(-left)
"""
"""A process that is killed, as kill -9 does, at a chosen one of all calls of functions that a conversion makes."""


@pytest.mark.campaign
@pytest.mark.parametrize("number", [3, 4, 10, 13])
def test_a_process_that_is_killed_at_any_moment(
    number: int, conversions: list[Conversion], record_property: Any, capfd: Any
) -> None:
    conversion = conversions[number]
    proof = Proof(conversion)
    chosen = {
        each.name: getattr(conversion.options, each.name)
        for each in dataclasses.fields(ConvertOptions)
        if getattr(conversion.options, each.name) != each.default and each.name != "type_mappings"
    }

    def run(left: int) -> subprocess.CompletedProcess[str]:
        request = json.dumps([conversion.place, conversion.to.value, conversion.target, chosen, left])
        command = [sys.executable, "-c", KILLED, request]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    whole = run(0)
    assert whole.returncode == 0, whole.stderr
    assert proof.rolled_back() == []
    calls, kills, found = int(whole.stdout), 10, []
    generator = random.Random(number)
    for _ in range(kills):
        at = generator.randrange(1, calls)
        assert run(at).returncode == -signal.SIGKILL
        defects = [*proof.after_fault(), *proof.after_next_run(), *proof.rolled_back()]
        if defects:
            proof.start_again()
        found += [f"killed at call {at} of {calls}: {each}" for each in defects]
    record_property("faults kill -9 of a conversion", kills)
    with capfd.disabled():
        print(f"\n{conversion.name}: killed {kills} times, {len(found)} defects", *found, sep="\n    ", flush=True)
    assert found == []


def run_all(
    conversion: Conversion, modes: list[Mode], record_property: Callable[..., None], *, reader: Any = None
) -> None:
    """Every operation in every mode; prints the counts, and fails with all defects at the end. reader: looks at every 40th
    target, too, as it is after the fault where there is one and after the next run."""
    proof = Proof(conversion)
    counts: Counter[str] = Counter()
    found: list[str] = []
    every = int(os.environ.get("DELTABERG_CAMPAIGN_EVERY", "1"))
    for number, mode in enumerate(modes):
        for at in itertools.count(number % every, every):
            storage = FaultStorage(mode, at)
            looks = reader is not None and counts.total() % 40 == 0
            defects = fault(proof, storage, look=partial(read_by_others, proof, reader) if looks else None)
            if storage.fired is None:
                break
            counts[mode.name] += 1
            found += [f"{mode.name} at {at}, {storage.fired}: {each}" for each in defects]
    record_property(f"faults {conversion.name}", counts.total())
    print(f"\n{conversion.name}: {counts.total()} faults, {len(found)} defects", flush=True)
    for line in found[:400]:
        print("   ", line[:600], flush=True)
    assert found == []


def read_by_others(proof: Proof, reader: Any) -> list[str]:
    """What an engine that nobody here wrote says to the target: the number of its rows is what our reader says."""
    place = proof.target_metadata()
    if place is None:
        return []
    engine = "pyiceberg" if proof.conversion.to is TableFormat.ICEBERG else "deltalake"
    got = reader.read(engine, place if engine == "pyiceberg" else proof.root)
    if isinstance(got, str):
        return [got]
    rows = len(proof.target_rows())
    return [] if got.num_rows == rows else [f"{engine} reads {got.num_rows} rows instead of {rows}"]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[], str]]:
    """``bucket()``: the URL of a new one."""
    with buckets() as create:
        yield create
