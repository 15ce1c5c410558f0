from __future__ import annotations

import pytest

from deltaberg.translate.operations import delta_to_iceberg_operation, iceberg_to_delta_operation


@pytest.mark.parametrize(
    ("operation", "added", "removed", "vectors", "data_change", "expected"),
    [
        ("WRITE", 2, 0, False, True, "append"),
        ("CREATE TABLE", 0, 0, False, False, "append"),
        ("WRITE", 2, 3, False, True, "overwrite"),
        ("DELETE", 0, 3, False, True, "delete"),
        ("DELETE", 1, 1, True, True, "overwrite"),
        ("MERGE", 2, 1, False, True, "overwrite"),
        ("OPTIMIZE", 1, 4, False, False, "replace"),
        (None, 1, 4, False, False, "replace"),
        ("REORG", 1, 1, False, True, "replace"),
    ],
)
def test_a_commit_is_named_by_what_it_did(
    operation: str | None, added: int, removed: int, vectors: bool, data_change: bool, expected: str
) -> None:
    assert (
        delta_to_iceberg_operation(
            operation=operation, added=added, removed=removed, removed_rows=vectors, data_change=data_change
        )
        == expected
    )


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("append", "WRITE"), (None, "WRITE"), ("overwrite", "WRITE"), ("delete", "DELETE"), ("replace", "OPTIMIZE")],
)
def test_a_snapshot_is_named_as_delta_writers_would(operation: str | None, expected: str) -> None:
    assert iceberg_to_delta_operation(operation, first=False)[0] == expected


def test_an_operation_of_another_writer_keeps_its_name() -> None:
    assert iceberg_to_delta_operation("vendor-thing", first=False) == ("VENDOR-THING", {})
