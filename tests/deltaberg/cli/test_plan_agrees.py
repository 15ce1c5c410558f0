"""``plan`` ends as ``convert`` would: with the same exit code and, but for refusals, the same line; and it writes nothing."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaberg.delta.log.log_path import commit_name

ORIGINAL = {"delta": "orders", "iceberg": "items"}

Command = Callable[..., Any]
Prepare = Callable[[Command, Path, Path, str], None]


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def convert(command: Command, source: Path, target: Path, to: str, *more: object) -> None:
    """The tables are copies, whose metadata may name the place that they were copied from."""
    moved = f"{source.parent.parent / ORIGINAL[other(to)]}={source}"
    done = command("convert", source, "--to", to, "--target", target, "--relocate", moved, *more)
    assert done.code == 0, done.err


def absent(command: Command, source: Path, target: Path, to: str) -> None:
    """No folder is there."""


def empty(command: Command, source: Path, target: Path, to: str) -> None:
    target.mkdir()


def current(command: Command, source: Path, target: Path, to: str) -> None:
    convert(command, source, target, to)


def behind(command: Command, source: Path, target: Path, to: str) -> None:
    convert(command, source, target, to)
    append(source, other(to))


def drifted(command: Command, source: Path, target: Path, to: str) -> None:
    convert(command, source, target, to)
    append(target, to)


def foreign(command: Command, source: Path, target: Path, to: str) -> None:
    """A table that deltaberg did not write."""
    if to == "delta":
        deltalake.write_deltalake(str(target), pa.table({"x": [1]}))
    else:
        convert(command, source, target, to)
        for path in target.glob("metadata/*.metadata.json"):
            path.write_text(json.dumps({**json.loads(path.read_text()), "properties": {}}))


def made_of_another(command: Command, source: Path, target: Path, to: str) -> None:
    """A table that deltaberg made of another source."""
    third, fourth = target.parent / "third", target.parent / "fourth"
    deltalake.write_deltalake(str(third), pa.table({"x": [1]}))
    convert(command, third, target if to == "iceberg" else fourth, "iceberg")
    if to == "delta":
        convert(command, fourth, target, to)


def with_other_options(command: Command, source: Path, target: Path, to: str) -> None:
    convert(command, source, target, to, "--deep")


def damaged(command: Command, source: Path, target: Path, to: str) -> None:
    convert(command, source, target, to)
    pattern = "metadata/*.metadata.json" if to == "iceberg" else "_delta_log/*.json"
    for path in target.glob(pattern):
        path.write_bytes(b"{]")


def a_file(command: Command, source: Path, target: Path, to: str) -> None:
    target.write_bytes(b"x")


def claimed_by_another(command: Command, source: Path, target: Path, to: str) -> None:
    log = target / "_delta_log"
    log.mkdir(parents=True)
    claim = {"commitInfo": {"deltaberg.claim": "another", "timestamp": 0, "operation": "CREATE TABLE"}}
    log.joinpath(commit_name(0)).write_text(json.dumps(claim))


def other(to: str) -> str:
    return "delta" if to == "iceberg" else "iceberg"


def append(folder: Path, kind: str) -> None:
    """One more commit, by somebody else."""
    if kind == "delta":
        log = folder / "_delta_log"
        log.joinpath(commit_name(len(list(log.glob("*.json"))))).write_text('{"txn":{"appId":"a","version":1}}')
        return
    newest = max(folder.glob("metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    document = json.loads(newest.read_text())
    snapshot = dict(
        document["snapshots"][-1], **{"snapshot-id": 77, "parent-snapshot-id": document["current-snapshot-id"]}
    )
    snapshot["sequence-number"] = document["last-sequence-number"] + 1
    snapshot["summary"] = {"operation": "append"}
    document["last-sequence-number"] += 1
    document["snapshots"].append(snapshot)
    document["current-snapshot-id"] = 77
    document["refs"] = {"main": {"snapshot-id": 77, "type": "branch"}}
    head, _, rest = newest.name.partition(".")
    digits = head.removeprefix("v").split("-")[0]
    number = str(int(digits) + 1).zfill(len(digits))
    name = f"v{number}.{rest}" if head.startswith("v") else f"{number}-{head.partition('-')[2]}.{rest}"
    newest.with_name(name).write_text(json.dumps(document))
    if (folder / "metadata/version-hint.text").exists():
        (folder / "metadata/version-hint.text").write_text(number)


EVERY_TARGET = {
    absent: 0,
    empty: 0,
    current: 0,
    behind: 5,
    drifted: 5,
    foreign: 5,
    made_of_another: 5,
    with_other_options: 5,
    damaged: 1,
    a_file: 1,
    claimed_by_another: 5,
}
REQUESTS: tuple[tuple[str, ...], ...] = ((), ("--strict", "--history", "all"), ("--format-version", "2"))


@pytest.fixture(params=["delta", "iceberg"])
def source(request: pytest.FixtureRequest, delta_folder: Path, iceberg_folder: Path) -> tuple[Path, str]:
    return (delta_folder, "iceberg") if request.param == "delta" else (iceberg_folder, "delta")


@pytest.mark.parametrize(
    ("prepare", "expected"), EVERY_TARGET.items(), ids=lambda each: getattr(each, "__name__", None)
)
def test_plan_ends_as_convert_does(
    prepare: Prepare, expected: int, source: tuple[Path, str], command: Command, tmp_path: Path
) -> None:
    """Every state of a target with every kind of request."""
    folder, to = source
    codes = []
    for number, more in enumerate(REQUESTS):
        scratch = tmp_path / f"run{number}"
        scratch.mkdir()
        copy, target = scratch / "source", scratch / "target"
        shutil.copytree(folder, copy)
        prepare(command, copy, target, to)
        before = files_below(scratch)
        arguments = (copy, "--to", to, "--target", target, "--relocate", f"{folder}={copy}", *more)
        planned = command("plan", *arguments)
        assert files_below(scratch) == before, more
        done = command("convert", *arguments)
        assert planned.code == done.code, (more, planned.err, done.err)
        codes.append(done.code)
        if done.code in (0, 3):
            assert re.search(rf"^  target +{re.escape(str(target))}$", planned.out, re.MULTILINE)
        else:
            assert planned.err == done.err
    # A claim is a thing of Delta targets; in the folder of an Iceberg table its file is in nobody's way.
    assert codes[0] == (0 if prepare is claimed_by_another and to == "iceberg" else expected)


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (("--target", "{source}/visible"), {"delta": 2, "iceberg": 0}),
        (("--version", "99"), {"delta": 2, "iceberg": 2}),
        (("--snapshot-id", "99"), {"delta": 2, "iceberg": 2}),
        (("--target-file-size", "1"), {"delta": 2, "iceberg": 2}),
        (("--partition-timezone", "Mars/Olympus"), {"delta": 2, "iceberg": 2}),
        (("--map", "uuid=string"), {"delta": 2, "iceberg": 0}),
        (("--column-mapping", "none"), {"delta": 2, "iceberg": 0}),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_requests_end_alike(
    more: tuple[str, str], code: dict[str, int], source: tuple[Path, str], command: Command
) -> None:
    folder, to = source
    arguments = (folder, "--to", to, more[0], more[1].format(source=folder))
    planned, done = command("plan", *arguments), command("convert", *arguments)
    assert planned.code == done.code
    assert planned.code == code[other(to)], planned.err
    assert planned.err == done.err
