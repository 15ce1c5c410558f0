"""Sizes as a person types them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaberg.cli.selection import byte_count
from deltaberg.errors import UsageError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1 << 20),
        ("128MB", 128_000_000),
        ("128 MiB", 128 << 20),
        ("64mib", 64 << 20),
        ("2G", 2 * 10**9),
        ("1TiB", 1 << 40),
        ("512kB", 512_000),
    ],
)
def test_a_size_is_a_number_with_or_without_a_unit(text: str, size: int) -> None:
    assert byte_count(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "1.5GB", "12XB", "1 2"])
def test_anything_else_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="as a size: expected such as 128MB or 64MiB"):
        byte_count(text)


def test_the_target_file_size_reaches_the_plan(tmp_path: Path, command: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    small = command("plan", tmp_path / "t", "--to", "iceberg", "--target-file-size", "10kB")
    assert small.code == 2
    assert "Cannot write files of 10000 bytes: --target-file-size is at least 1 MiB" in small.err
    wrong = command("convert", tmp_path / "t", "--to", "iceberg", "--target-file-size", "many")
    assert wrong.code == 2
    assert "Cannot take 'many' as a size" in wrong.err
    usual = command("plan", tmp_path / "t", "--to", "iceberg", "--target-file-size", "128MB", "--json")
    assert usual.document["cost"] == {"files": 0, "read_bytes": 0, "write_bytes": 0}
    assert usual.document["target"]["size_of_rewritten_files"] == 128_000_000
