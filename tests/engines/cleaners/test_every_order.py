"""The cleaners of both formats, on both tables, in every order: the other table still reads every row.

What breaks a table by force is in test_by_force.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import deltaberg

# The files that no table knows, one in each folder that a cleaner lists.
STRAY = "stray.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A source and its target below ``base``.

    refused: what the engine says when a cleaner is not allowed to run, by the cleaner's name.
    """

    base: Path
    delta: Path
    iceberg: Path
    iceberg_name: str
    source: Path
    target: Path
    to: str
    refused: dict[str, str]

    @property
    def iceberg_metadata(self) -> Path:
        """The newest metadata file."""
        return max(
            (self.iceberg / "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0])
        )

    def vacuum_sees(self, path: str) -> bool:
        """Everything in the Delta table's folder but hidden folders, of which it knows the log."""
        below = inside(self.base / path, self.delta)
        return below is not None and (below[0] == "_delta_log" or not hidden(below))

    def log_cleanup_sees(self, path: str) -> bool:
        below = inside(self.base / path, self.delta)
        return below is not None and below[0] == "_delta_log"

    def iceberg_sees(self, path: str) -> bool:
        below = inside(self.base / path, self.iceberg)
        return below is not None and not hidden(below)


def inside(path: Path, folder: Path) -> tuple[str, ...] | None:
    return path.relative_to(folder).parts if path.is_relative_to(folder) else None


def hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith(("_", ".")) for part in parts)


@pytest.fixture(scope="session")
def cleaners_of(engine_cleaners: Any, cleaner_orders: Any) -> Callable[[Pair], tuple[Any, ...]]:
    """The five of a pair; one that must be refused passes when the engine refuses it with those words."""

    def make(pair: Pair) -> tuple[Any, ...]:
        delta, name = pair.delta, pair.iceberg_name
        runs = (
            ("vacuum", lambda: engine_cleaners.vacuum(delta), pair.vacuum_sees),
            ("forced_vacuum", lambda: engine_cleaners.vacuum(delta, hours=0, forced=True), pair.vacuum_sees),
            ("log_cleanup", lambda: engine_cleaners.log_cleanup(delta), pair.log_cleanup_sees),
            ("expire_snapshots", lambda: engine_cleaners.expire_snapshots(name), pair.iceberg_sees),
            ("remove_orphan_files", lambda: engine_cleaners.remove_orphan_files(name), pair.iceberg_sees),
        )
        if pair.delta == pair.iceberg:
            unforced = ("vacuum_0_hours", lambda: engine_cleaners.vacuum(delta, hours=0), pair.vacuum_sees)
            runs = (runs[0], unforced, *runs[2:])
        return tuple(
            cleaner_orders.Cleaner(name=each, run=refused(run, pair.refused.get(each)), sees=sees)
            for each, run, sees in runs
        )

    return make


def refused(run: Callable[[], None], words: str | None) -> Callable[[], None]:
    if words is None:
        return run

    def expect() -> None:
        with pytest.raises(Exception, match=words):
            run()

    return expect


GC_DISABLED = {"expire_snapshots": "GC is disabled", "remove_orphan_files": "GC is disabled"}
SHORTER_THAN_THE_GUARD = {"vacuum_0_hours": r"(?i)retention"}


@pytest.fixture
def pair(
    request: pytest.FixtureRequest,
    run: Any,
    warehouse: Path,
    make_delta: Any,
    make_iceberg: Any,
    new_namespace: Any,
    widens: bool,
) -> Pair:
    """One of each kind and place: made, converted, and where ``moved`` with commits on both tables after that."""
    kind, place, version, moved = request.param
    namespace = new_namespace()
    base = warehouse / namespace
    table, elsewhere = base / "table", base / "copy"
    if kind == "delta":
        make_delta(table)
        target = table / "_iceberg" if place == "inside" else elsewhere
        name = f"{namespace}.table._iceberg" if place == "inside" else f"{namespace}.copy"
        made = Pair(
            base=base, delta=table, iceberg=target, iceberg_name=name, source=table, target=target, to="iceberg",
            refused=GC_DISABLED,
        )  # fmt: skip
    else:
        make_iceberg(f"ice.{namespace}.table", version)
        target = table if place == "inside" else elsewhere
        made = Pair(
            base=base, delta=target, iceberg=table, iceberg_name=f"{namespace}.table", source=table, target=target,
            to="delta", refused=SHORTER_THAN_THE_GUARD,
        )  # fmt: skip
    options = deltaberg.ConvertOptions(format_version=version) if kind == "delta" else None
    result = deltaberg.convert(made.source, to=made.to, target=made.target, options=options)
    assert bool(result.rewritten_files) is (widens or kind == "iceberg")
    assert result.files > result.rewritten_files
    if moved:
        commit_on_both(run, made, 100)
    for folder in {made.delta, made.iceberg, made.iceberg / "data"}:
        (folder / STRAY).write_bytes(b"PAR1")
    return made


COMMITS = (
    "INSERT INTO {t} SELECT CAST(id AS INT), concat('later', id), CAST(id AS DOUBLE) FROM range({first}, {first} + 10)",
    "DELETE FROM {t} WHERE id % 11 = 5",
)


def commit_on_both(run: Callable[..., Any], pair: Pair, first: int) -> None:
    """Not on a Delta target in the Iceberg table's folder: what is written there is an orphan to the Iceberg table."""
    names = [f"ice.{pair.iceberg_name}"]
    if pair.delta != pair.iceberg:
        names.append(f"delta.`{pair.delta}`")
    for name in names:
        run(*(statement.format(t=name, first=first) for statement in COMMITS))


PAIRS = [
    ("delta", "inside", 2, False),
    ("delta", "inside", 3, True),
    ("delta", "elsewhere", 3, False),
    ("iceberg", "inside", 3, False),
    ("iceberg", "inside", 2, True),
    ("iceberg", "elsewhere", 2, False),
    ("iceberg", "elsewhere", 3, True),
]


@pytest.mark.parametrize(
    "pair",
    PAIRS,
    indirect=True,
    ids=lambda each: "-".join((*map(str, each[:2]), f"v{each[2]}", "moved" if each[3] else "still")),
)
def test_both_tables_survive_every_order(
    request: pytest.FixtureRequest,
    pair: Pair,
    run: Any,
    query: Any,
    cleaners_of: Any,
    cleaner_orders: Any,
    engine_cleaners: Any,
    independent: Any,
    difference: Any,
) -> None:
    """Where there are commits after the conversion, there are others after the cleaners, and the cleaners come again."""
    moved = request.node.callspec.params["pair"][3]
    names = {"delta": f"delta.`{pair.delta}`", "iceberg": f"ice.{pair.iceberg_name}"}
    wanted = {side: query(f"SELECT * FROM {name}") for side, name in names.items()}
    readers = [("delta", "duckdb-delta"), ("iceberg", "pyiceberg")]
    # One that cannot read a source (a widened type, ORC) reads the target all the same.
    readers.append(("delta", "deltalake") if pair.to == "delta" else ("iceberg", "duckdb-iceberg"))

    def check(path: str) -> None:
        for side, engine in readers:
            got = independent.read(engine, pair.delta if side == "delta" else pair.iceberg_metadata)
            assert not isinstance(got, str), f"after {path}: {got}"
            text = difference(got, wanted[side])
            assert not text, f"{engine} reads the {side} table after {path}: {text}"
        if not moved:
            report = deltaberg.verify(pair.source, pair.target, to=pair.to, rows=True)
            assert report.equal, f"after {path}: {report}"

    def check_with_spark() -> None:
        both = query(" UNION ALL ".join(f"SELECT '{side}' AS side, * FROM {name}" for side, name in names.items()))
        for side in names:
            got = both.filter(pc.equal(both["side"], side)).drop_columns(["side"])
            assert not difference(got, wanted[side])

    cleaners = cleaners_of(pair)
    orders = cleaner_orders.Orders(base=pair.base, cleaners=cleaners, check=check, forget=engine_cleaners.forget)
    orders.walk()
    assert orders.orders == math.factorial(len(cleaners))
    for state in orders.ends:
        orders.restore(state)
        did_their_work(pair)
        check_with_spark()
    first_commit = str((pair.delta / "_delta_log" / f"{0:020}.json").relative_to(pair.base))
    assert not all(first_commit in state for state in orders.ends), "old commits are cleaned up"
    if moved:
        commit_on_both(run, pair, 200)
        wanted.update((side, query(f"SELECT * FROM {name}")) for side, name in names.items())
        for cleaner in cleaners:
            cleaner_orders.date_back(pair.base)
            cleaner.run()
            check(f"{cleaner.name} once more")
        check_with_spark()


def did_their_work(pair: Pair) -> None:
    """A cleaner that finds nothing to do proves nothing."""
    if pair.to == "iceberg":
        assert not (pair.delta / STRAY).exists(), "the vacuum deletes what it does not know"
    else:
        assert not (pair.iceberg / "data" / STRAY).exists(), "so does the removal of orphans"
        assert len(list((pair.iceberg / "metadata").glob("snap-*.avro"))) == 1, "the snapshots have expired"
