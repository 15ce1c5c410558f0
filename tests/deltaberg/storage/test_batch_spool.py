"""Batches that are put aside come back as they were, from memory or from disk, and leave nothing behind."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from deltaberg.storage import StorageError
from deltaberg.storage.batch_spool import BatchSpool

WORDS = pa.array(["a", None, "b"]).dictionary_encode()


def batches() -> list[pa.RecordBatch]:
    large = pa.record_batch({"n": pa.array(range(1000)), "s": pa.array(["text"] * 1000)})
    return [
        large,
        large.slice(100, 200),
        pa.record_batch(
            {
                "nested": pa.array([{"a": [1, 2]}, None]),
                "map": pa.array([[("k", "v")], []], pa.map_(pa.string(), pa.string())),
            }
        ),
        pa.record_batch({"words": WORDS}),
        large.slice(0, 0),
        large.slice(999),
    ]


@pytest.mark.parametrize("room", [0, 10_000, 1 << 30])
def test_batches_come_back_in_their_order_as_often_as_asked(room: int) -> None:
    spool = BatchSpool(in_memory_bytes=room)
    for batch in batches():
        spool.append(batch)
    assert len(spool) == len(batches())
    for _ in range(2):
        assert all(found.equals(batch) for found, batch in zip(spool, batches(), strict=True))
    first, second = iter(spool), iter(spool)
    assert next(first).equals(next(second))


def test_what_is_put_aside_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    spool = BatchSpool(in_memory_bytes=1 << 16)
    before = pa.total_allocated_bytes()
    for number in range(50):
        spool.append(pa.record_batch({"n": pa.array([number] * 100_000)}))
    assert pa.total_allocated_bytes() - before < 1 << 17
    assert [batch.column("n")[0].as_py() for batch in spool] == list(range(50))
    assert list(tmp_path.iterdir()) == []
    del spool
    gc.collect()


def test_a_full_disk_is_said_in_our_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    spool = BatchSpool(in_memory_bytes=0)
    with pytest.raises(StorageError, match=r"Cannot put .* bytes aside in .*gone: .*set TMPDIR to a folder with room"):
        spool.append(pa.record_batch({"n": [1]}))
