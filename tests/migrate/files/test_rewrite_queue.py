"""Files wait until there are enough for a wave, and come back in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.datafile import ReadField
from deltaberg.migrate.files import rewrite_queue
from deltaberg.migrate.files.rewrite_queue import RewriteQueue


class Waves:
    """Stands for a rewriter and its runner; remembers how many units each wave had. ``written`` is the unit itself."""

    def __init__(self, *, wave_bytes: int, target_size: int | None = None) -> None:
        inner = (field("a"), field("b"))
        kind = pa.struct([("a", pa.int64()), ("b", pa.int64())])
        nested = ReadField(name="s", physical_name="s", type=kind, children=inner)
        self.target = SimpleNamespace(target_size=target_size, fields=(field("x"), nested))
        self.runner = self
        self.wave_bytes = wave_bytes
        self.waves: list[int] = []

    def run(self, rewrite: Any, units: Sequence[Any]) -> Iterator[Any]:
        assert rewrite is self
        self.waves.append(len(units))
        yield from units


def field(name: str) -> ReadField:
    return ReadField(name=name, physical_name=name, type=pa.int64())


def batch(start: int, count: int, size: int = 10) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "file_path": [str(number) for number in range(start, start + count)],
            "spec_id": pa.array([0] * count, pa.int32()),
            "sort_order_id": pa.array([0] * count, pa.int32()),
            "partition": pa.array([{}] * count, pa.struct([])),
            "file_size_in_bytes": [size] * count,
            "lower_bounds": [[(1, b"x")]] * count,
        },
        schema=pa.schema(
            [
                ("file_path", pa.string()),
                ("spec_id", pa.int32()),
                ("sort_order_id", pa.int32()),
                ("partition", pa.struct([])),
                ("file_size_in_bytes", pa.int64()),
                ("lower_bounds", pa.map_(pa.int32(), pa.binary())),
            ]
        ),
    )


def paths(done: Iterator[Any]) -> list[str]:
    return [path for each in done for path in each.sources.column("file_path").to_pylist()]


def test_without_a_wave_every_batch_is_done_at_once() -> None:
    rewriter = Waves(wave_bytes=0)
    queue = RewriteQueue(rewriter)
    assert paths(queue.add(batch(0, 2))) == ["0", "1"]
    assert paths(queue.add(batch(2, 1))) == ["2"]
    assert paths(queue.finish()) == []


def test_a_wave_ends_at_its_bytes_whatever_the_batches() -> None:
    rewriter = Waves(wave_bytes=30)
    queue = RewriteQueue(rewriter)
    assert paths(queue.add(batch(0, 2))) == []
    assert paths(queue.add(batch(2, 5))) == ["0", "1", "2", "3", "4", "5"]
    assert paths(queue.finish()) == ["6"]
    assert rewriter.waves == [3, 3, 1]


def test_a_wave_ends_where_its_metrics_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three leaves, seven metrics: two files."""
    monkeypatch.setattr(rewrite_queue, "_METRICS_IN_A_WAVE", 7)
    rewriter = Waves(wave_bytes=1 << 40)
    queue = RewriteQueue(rewriter)
    assert paths(queue.add(batch(0, 5))) == ["0", "1", "2", "3"]
    assert paths(queue.finish()) == ["4"]
    assert rewriter.waves == [2, 2, 1]


def test_files_are_combined_across_batches() -> None:
    rewriter = Waves(wave_bytes=0, target_size=35)
    queue = RewriteQueue(rewriter)
    assert paths(queue.add(batch(0, 3))) == []
    done = list(queue.add(batch(3, 2))) + list(queue.finish())
    assert [each.sources.column("file_path").to_pylist() for each in done] == [["0", "1", "2", "3"], ["4"]]


def test_statistics_do_not_wait_with_the_files() -> None:
    queue = RewriteQueue(Waves(wave_bytes=0))
    (first, _) = queue.add(batch(0, 2))
    assert "lower_bounds" not in first.sources.schema.names
    assert first.sources.get_total_buffer_size() < 1000
