"""Parts of a snapshot: together they are the snapshot, each on its own finds the deletes of its files."""

from __future__ import annotations

import functools
import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaberg.errors import DeltabergError
from deltaberg.iceberg.deletes.resolved_deletes import ResolvedDeletes, resolve_deletes, resolve_matched
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.manifest.manifest_list import FieldSummary, ManifestContent, ManifestFile
from deltaberg.iceberg.metadata.table_metadata import TableMetadata
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import IdentityTransform
from deltaberg.iceberg.scan.scan_task import matched_batches
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.single_value import single_value_bytes
from deltaberg.iceberg.schema.types import DoubleType, NestedField
from deltaberg.iceberg.snapshot_write.splits import (
    SnapshotSplit,
    may_touch,
    snapshot_splits,
    split_data_files,
    split_deletes,
)
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "iceberg"
CASES = sorted(folder.name for folder in CORPUS.iterdir()) if CORPUS.is_dir() else []


def opened(name: str) -> Table:
    folder = CORPUS / name
    known = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    relocate = {known["location"]: str(folder / "table")} if known.get("location") else {}
    relocate |= {old: str(folder / new) for old, new in (known.get("relocate") or {}).items()}
    relocate["s3://fake-bucket"] = str(folder / "absent")
    return Table.open(str(folder / "table" / known["metadata"]), open_storage(relocate=relocate))


def rows(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist(maps_as_pydicts="lossy")]


def deleted(found: Iterable[ResolvedDeletes]) -> list[tuple[str, Any, list[int] | None]]:
    """Of every data file, the vector that is named and the positions that are merged."""
    result = []
    for each in found:
        merged = {row: bitmap.to_positions().tolist() for row, bitmap in each.merged.items()}
        paths, vectors = each.data_files.column("file_path").to_pylist(), each.vectors.to_pylist()
        result += [
            (path, vector, merged.get(row)) for row, (path, vector) in enumerate(zip(paths, vectors, strict=True))
        ]
    return result


@functools.lru_cache(maxsize=1)
def read_whole(name: str) -> tuple[Table, list[dict[str, Any]], list[tuple[str, Any, list[int] | None]]]:
    """The table, its data files and what is deleted of them; the tests of one table follow each other."""
    table = opened(name)
    snapshot = table.metadata.current_snapshot
    return table, rows(data_files(table, snapshot)), deleted(resolve_deletes(table, snapshot))


def resolved_split(table: Table, part: SnapshotSplit) -> Iterator[ResolvedDeletes]:
    deletes = split_deletes(table, part)
    return resolve_matched(table, deletes, matched_batches(split_data_files(table, part), deletes.index))


@pytest.mark.skipif(not CASES, reason="../shared is absent")
@pytest.mark.parametrize("files_per_part", [1, 1_000_000])
@pytest.mark.parametrize("name", CASES)
def test_the_parts_of_every_corpus_table_are_the_table_with_its_deletes(name: str, files_per_part: int) -> None:
    try:
        table, whole, resolved = read_whole(name)
    except DeltabergError as error:
        pytest.skip(f"the table itself is refused: {error}")
    snapshot = table.metadata.current_snapshot
    parts = pickle.loads(pickle.dumps(snapshot_splits(table, snapshot, files_per_part=files_per_part)))
    assert rows(batch for part in parts for batch in split_data_files(table, part)) == whole
    assert deleted(each for part in parts for each in resolved_split(table, part)) == resolved
    assert sum(part.files or 0 for part in parts) in {len(whole), 0}


@pytest.fixture
def stored(stored_table: Callable[..., Any]) -> Any:
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="x", required=False, type=DoubleType()),))
    return stored_table(schema, version=2)


def numbers(*values: float) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.float64())})


def test_only_the_deletes_of_the_parts_own_files_are_held(stored: Any) -> None:
    first = stored.data(numbers(1, 2))
    stored.position_deletes([(first, 0)], sequence_number=2)
    table = stored.open()
    (part,) = snapshot_splits(table, table.metadata.current_snapshot, files_per_part=1)
    assert split_deletes(table, part).index.entry_count == 1
    elsewhere = replace(part, manifests=())
    assert split_deletes(table, elsewhere).index.entry_count == 0


def test_a_delete_manifest_that_is_older_than_the_files_is_left_out() -> None:
    data, delete = (manifest([1.0], content) for content in ManifestContent)
    assert may_touch(delete, replace(data, min_sequence_number=1), _metadata())
    assert not may_touch(delete, replace(data, min_sequence_number=2), _metadata())
    assert not may_touch(replace(delete, partition_spec_id=4), data, _metadata())
    assert may_touch(replace(delete, partition_spec_id=0), data, _metadata())


def test_no_snapshot_has_no_parts(stored: Any) -> None:
    assert snapshot_splits(stored.open(), None, files_per_part=1) == ()


SPEC = PartitionSpec(
    spec_id=3, fields=(PartitionField(source_ids=(1,), field_id=1000, name="x", transform=IdentityTransform()),)
)
VALUES = st.lists(
    st.none() | st.floats(width=64, allow_nan=True) | st.sampled_from([0.0, -0.0, 1.0]), min_size=1, max_size=4
)


def manifest(values: list[float | None], content: ManifestContent, files: int | None = 1) -> ManifestFile:
    """What a list says of files whose partition values are these."""
    plain = sorted(value for value in values if value is not None and not math.isnan(value))
    summary = FieldSummary(
        contains_null=None in values,
        contains_nan=any(value is not None and math.isnan(value) for value in values),
        lower_bound=single_value_bytes(plain[0], DoubleType()) if plain else None,
        upper_bound=single_value_bytes(plain[-1], DoubleType()) if plain else None,
    )
    return ManifestFile(
        manifest_path="m",
        manifest_length=1,
        partition_spec_id=3,
        content=content,
        sequence_number=1,
        added_files_count=files,
        existing_files_count=0,
        partitions=(summary,),
    )


@settings(deadline=None)
@given(VALUES, VALUES)
def test_manifests_that_share_a_partition_value_are_never_held_apart(
    data: list[float | None], deletes: list[float | None]
) -> None:
    metadata = _metadata()
    same = any(
        (one is None and other is None)
        or (one is not None and other is not None and (one == other or (math.isnan(one) and math.isnan(other))))
        for one in data
        for other in deletes
    )
    touches = may_touch(manifest(deletes, ManifestContent.DELETES), manifest(data, ManifestContent.DATA), metadata)
    assert touches or not same


def test_manifests_without_a_common_value_are_held_apart() -> None:
    metadata = _metadata()
    apart = [([1.0], [2.0]), ([None], [1.0]), ([float("nan")], [1.0]), ([None, 1.0], [2.0, 3.0])]
    for data, deletes in apart:
        assert not may_touch(manifest(deletes, ManifestContent.DELETES), manifest(data, ManifestContent.DATA), metadata)


def _metadata() -> TableMetadata:
    schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="x", required=False, type=DoubleType()),))
    return TableMetadata(
        format_version=2,
        table_uuid="u",
        location="/t",
        last_updated_ms=0,
        last_column_id=1,
        schemas=(schema,),
        current_schema_id=0,
        partition_specs=(UNPARTITIONED, SPEC, replace(SPEC, spec_id=4)),
        default_spec_id=3,
        last_partition_id=1000,
    )
