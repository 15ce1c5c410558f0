"""Every Iceberg table of the shared corpus, scanned at every point whose rows are known."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg.errors import DeltabergError
from deltaberg.iceberg import metadata_tables
from deltaberg.iceberg.deletes.resolved_deletes import resolve_deletes
from deltaberg.iceberg.scan.scan import scan
from deltaberg.iceberg.schema.read_schema import schema_at
from deltaberg.iceberg.table import Table
from deltaberg.storage import open_storage

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus" / "iceberg"
CATALOGUE = Path(__file__).resolve().parents[2] / "exceptions.json"
EXCEPTIONS: dict[str, str] = {
    name.removeprefix("iceberg/"): judged["scan"]["because"]
    for name, judged in json.loads(CATALOGUE.read_text(encoding="utf-8"))["tables"].items()
    if name.startswith("iceberg/") and "scan" in judged
}
"""Cases that cannot be read as the corpus expects, each with the reason."""

LINEAGE = ["_row_id", "_last_updated_sequence_number"]
Difference = Callable[..., str]


def case_names() -> list[str]:
    return sorted(folder.name for folder in CORPUS.iterdir()) if CORPUS.is_dir() else []


def facts(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CORPUS / name / "case.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def opened(shared: Path, case: str) -> Table:
    folder, known = CORPUS / case, facts(case)
    relocate = {known["location"]: str(folder / "table")} if known.get("location") else {}
    relocate |= {old: str(folder / new) for old, new in (known.get("relocate") or {}).items()}
    # The one case with files in a bucket that never was: no test looks for a network.
    relocate["s3://fake-bucket"] = str(folder / "absent")
    return Table.open(str(folder / "table" / known["metadata"]), open_storage(relocate=relocate))


def expected_files(name: str) -> list[Path]:
    folder = CORPUS / name
    return [file for file in [folder / "expected.parquet", *sorted(folder.glob("expected_*.parquet"))] if file.exists()]


def rows_at(table: Table, point: str) -> pa.Table:
    """The rows at the point that the name of an expected file says."""
    if point == "expected":
        return scan(table).read_all()
    key = point.removeprefix("expected_")
    ref = key.removeprefix("ref_") if key.startswith("ref_") else None
    snapshot = table.snapshot_for(ref=ref) if ref is not None else table.snapshot_for(snapshot_id=int(key))
    return scan(table, snapshot=snapshot, schema=schema_at(table.metadata, snapshot=snapshot, ref=ref)).read_all()


def as_spark_json(rows: pa.Table, names: tuple[str, ...]) -> pa.Table:
    """Structs with variants as the text that Spark's ``to_json`` makes of them: fields that are null are left out."""
    for name in names:
        place = rows.schema.get_field_index(name)
        if place >= 0 and pa.types.is_struct(rows.schema.field(place).type):
            texts = [
                None
                if value is None
                else json.dumps(
                    {k: json.loads(v) if isinstance(v, str) else v for k, v in value.items() if v is not None}
                )
                for value in rows.column(place).to_pylist()
            ]
            rows = rows.set_column(place, name, pa.array(texts, pa.string()))
    return rows


@pytest.mark.parametrize("case", [name for name in case_names() if name not in EXCEPTIONS] or ["absent"])
def test_rows_are_those_of_the_engine_that_wrote_them(case: str, opened: Table, difference: Difference) -> None:
    known = facts(case)
    variants = tuple(name for name in known.get("variant_as_json") or () if not name.endswith("[]"))
    if not expected_files(case):
        assert scan(opened).read_all().num_rows > 0
    for file in expected_files(case):
        got = rows_at(opened, file.stem)
        got.validate(full=True)
        wrong = difference(as_spark_json(got, variants), pq.read_table(file), json_columns=variants)
        assert not wrong, f"{file.name}: {wrong}"


@pytest.mark.parametrize(
    "case", [name for name in case_names() if (CORPUS / name / "lineage.parquet").exists()] or ["absent"]
)
def test_row_lineage_is_what_the_engine_reads(case: str, opened: Table, difference: Difference) -> None:
    variants = tuple(name for name in facts(case).get("variant_as_json") or () if not name.endswith("[]"))
    wanted = pq.read_table(CORPUS / case / "lineage.parquet")
    columns = [name for name in wanted.column_names if name not in LINEAGE]
    got = scan(opened, columns=columns, with_lineage=True).read_all()
    wrong = difference(as_spark_json(got, variants), wanted, json_columns=variants)
    assert not wrong, wrong


@pytest.mark.parametrize("case", [name for name in case_names() if "facts" in facts(name)] or ["absent"])
def test_metadata_tables_agree_with_the_facts(case: str, opened: Table) -> None:
    known = facts(case)["facts"]
    snapshot = opened.snapshot_for()
    files = metadata_tables.files(opened, snapshot).read_all()
    assert files.num_rows == known["data_files"]
    assert sum(files["record_count"].to_pylist()) == known["data_file_records"]
    assert sum(files["file_size_in_bytes"].to_pylist()) == known["data_file_bytes"]
    assert {name.upper() for name in files["file_format"].to_pylist()} == set(known["data_file_formats"])
    deletes = metadata_tables.delete_files(opened, snapshot).read_all()
    kinds: dict[str, list[int]] = {"position": [], "deletion_vector": [], "equality": []}
    for row in deletes.select(["content", "file_format", "record_count"]).to_pylist():
        kind = (
            "equality" if row["content"] == 2 else "deletion_vector" if row["file_format"] == "puffin" else "position"
        )
        kinds[kind].append(row["record_count"])
    assert {kind: {"files": len(n), "records": sum(n)} for kind, n in kinds.items()} == known["delete_files"]
    specs = {*files["spec_id"].to_pylist(), *deletes["spec_id"].to_pylist()}
    assert sorted(specs) == known["spec_ids_in_use"]
    refs = {row["name"]: row for row in metadata_tables.refs(opened).to_pylist()}
    assert {name: (row["snapshot_id"], row["type"].lower()) for name, row in refs.items()} == {
        name: (ref["snapshot_id"], ref["type"]) for name, ref in known["refs"].items()
    }
    history = metadata_tables.history(opened).select(["snapshot_id", "is_current_ancestor"]).to_pylist()
    # Spark cannot load the table with nanoseconds, so nobody wrote its history down.
    assert not known["history"] or history == [
        {name: row[name] for name in ("snapshot_id", "is_current_ancestor")} for row in known["history"]
    ]
    manifests = metadata_tables.manifests(opened, snapshot).to_pylist()
    assert [(row["content"], row["partition_spec_id"]) for row in manifests] == [
        (row["content"], row["partition_spec_id"]) for row in known["manifests"]
    ]
    for ours, theirs in zip(manifests, known["manifests"], strict=True):
        for status in ("added", "existing", "deleted"):
            said = theirs[f"{status}_data_files_count"] + theirs[f"{status}_delete_files_count"]
            assert ours[f"{status}_files_count"] == said


@pytest.mark.parametrize("case", [name for name in case_names() if "facts" in facts(name)] or ["absent"])
def test_partitions_agree_with_the_facts(case: str, opened: Table) -> None:
    known = facts(case)["facts"]["partitions"]
    found = metadata_tables.partitions(opened, opened.snapshot_for()).to_pylist()
    totals = [name for name in known[0] if name.endswith("_count")] if known else []
    # Iceberg's own table leaves out partition fields whose source column was dropped.
    fields = set(known[0].get("partition", {})) if known else set()

    def row(each: dict[str, Any]) -> str:
        partition = {name: as_text(value) for name, value in each.get("partition", {}).items() if name in fields}
        return json.dumps([partition, each.get("spec_id", 0), [each[name] for name in totals]], sort_keys=True)

    assert Counter(map(row, found)) == Counter(map(row, known))


def as_text(value: Any) -> Any:
    """A partition value as the corpus writes it down."""
    match value:
        case str():
            try:
                return repr(float(value)) if value in ("NaN", "-0.0") or "." in value or "E" in value else value
            except ValueError:
                return value
        case float():
            return repr(value)
        case Decimal():
            return repr(float(value))
        case bool():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case dt.date() | dt.datetime():
            return value.isoformat()
    return value


@pytest.mark.parametrize("case", [name for name in case_names() if name not in EXCEPTIONS] or ["absent"])
def test_resolved_deletes_leave_as_many_rows_as_a_scan(case: str, opened: Table) -> None:
    snapshot = opened.snapshot_for()
    left = 0
    for resolved in resolve_deletes(opened, snapshot):
        left += sum(resolved.data_files.column("record_count").to_pylist())
        left -= sum(vector["cardinality"] for vector in resolved.vectors.to_pylist() if vector is not None)
        left -= sum(bitmap.cardinality for bitmap in resolved.merged.values())
    assert left == scan(opened, columns=[]).read_all().num_rows


@pytest.mark.parametrize("case", sorted(EXCEPTIONS))
def test_a_listed_exception_still_stands(case: str, request: pytest.FixtureRequest, difference: Difference) -> None:
    request.getfixturevalue("shared")
    assert len(EXCEPTIONS[case]) > 20
    try:
        table = request.getfixturevalue("opened")
        rows = scan(table).read_all()
        equal = all(not difference(rows, pq.read_table(file)) for file in expected_files(case))
    except DeltabergError:
        return
    assert not equal, f"{case} is read as expected: take it off the list"
