"""A sample of the corpus, converted there and back: what comes back is the table that set out.

Every eighth table that a conversion takes. The two ends are compared by verify, and the last one's rows by DuckDB with
those that the corpus expects.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from deltaberg.iceberg.transforms import IdentityTransform
from deltaberg.migrate.convert import convert
from deltaberg.migrate.source import DeltaSource, Source, open_source
from deltaberg.migrate.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

# Its own statistics state no nulls for a column of nulls.
BOUNDS_NOT_TRUE = {"delta/parsed-stats"}


def options(to: str) -> ConvertOptions:
    return ConvertOptions(former_names="rewrite") if to == "delta" else ConvertOptions()


def partition_columns(source: Source) -> list[str]:
    """Of a Delta table, or the identity fields of an Iceberg table's current spec."""
    if isinstance(source, DeltaSource):
        return list(source.snapshot.metadata.partition_columns)
    parts = source.table.metadata.spec.fields
    columns = [source.schema.find(part.source_id) for part in parts if isinstance(part.transform, IdentityTransform)]
    return [column.name for column in columns if column is not None]


def test_there_and_back(
    shared: Path, sampled_case: Any, oracle: Any, difference: Any, expectations: Any, tmp_path: Path
) -> None:
    case = sampled_case
    pairs = (part.split("=", 1) for part in case.relocation[1::2])
    storage = open_storage(relocate=dict(pairs))
    there, back = ("iceberg", "delta") if case.format == "delta" else ("delta", "iceberg")
    first = open_source(str(case.table), storage)
    middle = convert(first, to=there, target=str(tmp_path / "there"), options=options(there))
    last = convert(open_source(middle.target, storage), to=back, target=str(tmp_path / "back"), options=options(back))
    end = open_source(last.target, storage)
    report = verify(first, end, rows=True, bounds=case.name not in BOUNDS_NOT_TRUE)
    assert report.equal, report.to_json()
    codes = {item.code for done in (middle, last) for item in done.plan.items}
    if "partition-field-not-carried" not in codes and "partition-evolution" not in codes:
        assert partition_columns(end) == partition_columns(first)
    expected = case.folder / "expected.parquet"
    if case.name not in expectations["convert"] and expected.exists():
        place = Path(last.target_metadata if back == "iceberg" else last.target)
        got = oracle.read(f"duckdb-{back}", place)
        if not isinstance(got, str):
            wrong = difference(got, pq.read_table(expected), json_columns=case.json_columns)
            assert not wrong, wrong
