"""Every table of the corpus that a conversion takes, there and back: what comes back is the table that set out.

The two ends are compared by verify, and here in what verify leaves to the formats: partition columns, column mapping,
comments, defaults, deleted rows. The last one's rows are compared by engines with those that the corpus expects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.migrate.convert import convert
from deltaberg.migrate.formats.reader_of import reader_of
from deltaberg.migrate.source import DeltaSource, Source, open_source
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage

# Its own statistics state no nulls for a column of nulls.
BOUNDS_NOT_TRUE = {"delta/parsed-stats"}

PARTITIONING_CHANGES = {"partition-field-not-carried", "partition-evolution"}


def partition_columns(source: Source) -> list[str]:
    """Of a Delta table, or the identity fields of an Iceberg table's current spec."""
    if isinstance(source, DeltaSource):
        return list(source.snapshot.metadata.partition_columns)
    parts = source.table.metadata.spec.fields
    columns = [source.schema.find(part.source_id) for part in parts if isinstance(part.transform, IdentityTransform)]
    return [column.name for column in columns if column is not None]


def columns(source: Source) -> dict[str, tuple[bool, str | None]]:
    """Name: nullable, comment."""
    return {column.name: (column.nullable, column.comment) for column in reader_of(source).inspect().columns}


def void_columns(source: Source) -> set[str]:
    return {column.name for column in reader_of(source).inspect().columns if column.type in {"void", "unknown"}}


def deleted_rows(source: Source) -> int | None:
    """None where only reading the deletes tells."""
    found = reader_of(source).inspect().deletes
    return None if found["position"] or found["equality"] else found["rows"]


def mapping_mode(source: Source) -> str | None:
    return source.snapshot.column_mapping.mode.value if isinstance(source, DeltaSource) else None


def test_there_and_back(
    shared: Path, converted_case: Any, converted: Any, oracle: Any, difference: Any, expectations: Any, tmp_path: Path
) -> None:
    case = converted_case
    pairs = (part.split("=", 1) for part in case.relocation[1::2])
    storage = open_storage(relocate=dict(pairs))
    there = converted(case)
    assert there.outcome.code == 0, there.outcome.err
    back = "delta" if there.to == "iceberg" else "iceberg"
    first = open_source(str(case.table), storage)
    last = convert(open_source(str(there.target), storage), to=back, target=str(tmp_path / "back"))
    end = open_source(last.target, storage)
    report = verify(first, end, rows=True, bounds=case.name not in BOUNDS_NOT_TRUE)
    assert report.equal, report.to_json()

    items = [*there.outcome.document["plan"]["items"], *last.plan.to_json()["items"]]
    codes = {item["code"] for item in items}
    voids = void_columns(first)
    assert {name: facts for name, facts in columns(end).items() if name not in voids} == {
        name: facts for name, facts in columns(first).items() if name not in voids
    }
    if not codes & PARTITIONING_CHANGES:
        assert partition_columns(end) == partition_columns(first)
    if not any(item["severity"] == "rewrite" for item in items):
        assert mapping_mode(end) == mapping_mode(first)
        before = deleted_rows(first)
        assert before is None or deleted_rows(end) == before

    expected = case.folder / "expected.parquet"
    if case.name in expectations["convert"] or not expected.exists():
        return
    place = Path(last.target_metadata if back == "iceberg" else last.target)
    engine = "deltalake" if "partition-names-mapped" in codes else f"duckdb-{back}"
    got = oracle.read(engine, place)
    if not isinstance(got, str):
        wrong = difference(got, pq.read_table(expected), json_columns=case.json_columns)
        assert not wrong, wrong
