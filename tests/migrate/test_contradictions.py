"""Sources that contradict themselves are named and refused, or carried without the broken part where that is safe."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import api
from deltaberg.errors import Unsupported
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.manifest.metrics import metric_map
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField
from deltaberg.migrate.convert import convert
from deltaberg.migrate.files.footers import ONE_BY_ONE
from deltaberg.migrate.plan import plan
from deltaberg.migrate.plan_report import Plan
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

IDS = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
DEEP = ConvertOptions(deep=True)
Change = Callable[[pa.RecordBatch], pa.RecordBatch]


def refusals(made: Plan) -> list[tuple[str, int]]:
    return [(item.code, item.files) for item in made.items if item.severity == "refuse"]


def assert_refused(place: Any, to: str, target: Path, opened: Any, code: str, words: str) -> None:
    with pytest.raises(Unsupported, match=f"(?s)Cannot convert: {code}: .*{words}") as caught:
        convert(opened(place), to=to, target=str(target))
    assert caught.value.exit_code == 3
    assert not target.exists()


@pytest.fixture
def write_iceberg(tmp_path: Path, write_iceberg_file: Any) -> Callable[..., str]:
    """``write_iceberg([[1, 2], [3]], change=...)``: a table of one file for each list, each entry changed by ``change``."""

    def write(pieces: list[list[int]], *, change: Change = lambda entry: entry, version: int = 2) -> str:
        root = str(tmp_path / "iceberg")
        with create_table(open_storage(), root, schema=IDS, spec=UNPARTITIONED, format_version=version) as transaction:
            entries = [write_iceberg_file(root, IDS, pa.table({"id": piece}), UNPARTITIONED) for piece in pieces]
            transaction.snapshot("append").add_files([change(each) for each in entries], 0)
            return transaction.commit().metadata_location

    return write


def with_column(name: str, values: pa.Array) -> Change:
    def change(entry: pa.RecordBatch) -> pa.RecordBatch:
        place = entry.schema.get_field_index(name)
        return entry.set_column(place, name, values) if place >= 0 else entry.append_column(name, values)

    return change


def change_stats(folder: Path, **members: Any) -> None:
    """Other statistics in the newest commit's adds."""
    commit = max((folder / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
    for line in lines:
        if "add" in line:
            line["add"]["stats"] = json.dumps({**json.loads(line["add"]["stats"]), **members})
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


class TestRowCounts:
    def test_of_a_delta_log_that_are_not_the_files(self, tmp_path: Path, write_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1, 2, 3]}))
        change_stats(folder, numRecords=10)
        assert refusals(plan(opened(folder), to="iceberg")) == [("row-count-differs", 1)]
        words = "the metadata states 10 rows, the file has 3"
        assert_refused(folder, "iceberg", tmp_path / "target", opened, "row-count-differs", words)

    def test_of_manifests_that_are_not_the_files(self, tmp_path: Path, write_iceberg: Any, opened: Any) -> None:
        place = write_iceberg([[1, 2], [3, 4]], change=with_column("record_count", pa.array([7])))
        assert refusals(plan(opened(place), to="delta")) == [("row-count-differs", 2)]
        words = "the metadata states 7 rows, the file has 2"
        assert_refused(place, "delta", tmp_path / "target", opened, "row-count-differs", words)

    def test_of_a_file_that_is_not_sampled_are_compared_on_request(self, write_delta: Any, opened: Any) -> None:
        """Beyond the first files some of a commit's own stand for the others; one between them is odd here."""
        folder = write_delta(pa.table({"id": [1]}))
        log = folder / "_delta_log" / f"{0:020}.json"
        lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        (first,) = (line.pop("add") for line in lines if "add" in line)
        for number in range(ONE_BY_ONE + 9):
            path = f"part-{number:05}-{uuid.uuid4()}-c000.snappy.parquet"
            (folder / path).hardlink_to(folder / first["path"])
            rows = 9 if number == ONE_BY_ONE + 4 else 1
            lines.append({"add": {**first, "path": path, "stats": json.dumps({"numRecords": rows})}})
        log.write_text("".join(json.dumps(line) + "\n" for line in lines if line), encoding="utf-8")
        assert refusals(plan(opened(folder), to="iceberg")) == []
        assert refusals(plan(opened(folder), to="iceberg", options=DEEP)) == [("row-count-differs", 1)]


class TestFilesThatAreNotThere:
    def test_a_data_file_of_delta(self, tmp_path: Path, write_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1]}))
        write_delta(pa.table({"id": [2]}), folder)
        gone = next(folder.glob("*.parquet"))
        gone.unlink()
        assert refusals(plan(opened(folder), to="iceberg")) == [("file-unreadable", 1)]
        assert_refused(folder, "iceberg", tmp_path / "target", opened, "file-unreadable", f"{gone.name}.*no such file")

    def test_a_data_file_of_delta_without_statistics(self, write_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1]}))
        commit = folder / "_delta_log" / f"{0:020}.json"
        lines = [json.loads(line) for line in commit.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        commit.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        next(folder.glob("*.parquet")).unlink()
        assert refusals(plan(opened(folder), to="iceberg")) == [("file-unreadable", 1)]

    def test_a_data_file_of_another_format(self, tmp_path: Path, write_iceberg: Any, opened: Any) -> None:
        place = write_iceberg([[1, 2], [3]], change=with_column("file_format", pa.array(["orc"])))
        gone = next((tmp_path / "iceberg" / "data").glob("*.parquet"))
        gone.unlink()
        assert refusals(plan(opened(place), to="delta")) == [("file-unreadable", 1)]

    def test_a_data_file_that_is_damaged(self, tmp_path: Path, write_iceberg: Any, opened: Any) -> None:
        place = write_iceberg([[1, 2], [3]])
        broken = next((tmp_path / "iceberg" / "data").glob("*.parquet"))
        broken.write_bytes(broken.read_bytes()[:-20])
        assert refusals(plan(opened(place), to="delta")) == [("file-unreadable", 1)]
        assert_refused(place, "delta", tmp_path / "target", opened, "file-unreadable", broken.name)

    def test_a_file_of_deletion_vectors(
        self, tmp_path: Path, write_delta: Any, delete_from_delta: Any, opened: Any
    ) -> None:
        folder = write_delta(pa.table({"id": [1, 2]}))
        delete_from_delta(folder, {0: [0]})
        (vectors,) = folder.glob("deletion_vector_*.bin")
        vectors.unlink()
        assert_refused(folder, "iceberg", tmp_path / "target", opened, "file-unreadable", vectors.name)

    @pytest.mark.parametrize(("version", "pattern"), [(2, "*-deletes.parquet"), (3, "*.puffin")])
    def test_a_delete_file_of_iceberg(
        self, tmp_path: Path, write_iceberg: Any, delete_from_iceberg: Any, opened: Any, version: int, pattern: str
    ) -> None:
        place = delete_from_iceberg(write_iceberg([[1, 2]], version=version), {0: [1]})
        (deletes,) = (tmp_path / "iceberg" / "data").glob(pattern)
        deletes.unlink()
        assert_refused(place, "delta", tmp_path / "target", opened, "file-unreadable", deletes.name)


class TestIcebergDeletes:
    @pytest.mark.parametrize("version", [2, 3])
    def test_of_rows_behind_the_end_of_the_file_delete_nothing(
        self, tmp_path: Path, write_iceberg: Any, delete_from_iceberg: Any, opened: Any, delta_rows: Any, version: int
    ) -> None:
        """Readers of Iceberg ask for each row whether it is deleted; Delta's stumble over such positions."""
        place = delete_from_iceberg(write_iceberg([[1, 2, 3]], version=version), {0: [1, 77]})
        done = convert(opened(place), to="delta", target=str(tmp_path / "target"))
        assert sorted(delta_rows(done.target)["id"].to_pylist()) == [1, 3]
        assert done.rows == 2

    def test_a_vector_that_is_cut_short(
        self, tmp_path: Path, write_iceberg: Any, delete_from_iceberg: Any, opened: Any
    ) -> None:
        place = delete_from_iceberg(write_iceberg([[1, 2, 3]], version=3), {0: [1]})
        (puffin,) = (tmp_path / "iceberg" / "data").glob("*.puffin")
        damaged = bytearray(puffin.read_bytes())
        damaged[30] ^= 0xFF
        puffin.write_bytes(bytes(damaged))
        with pytest.raises(Refused, match=puffin.name):
            convert(opened(place), to="delta", target=str(tmp_path / "target"))
        assert not (tmp_path / "target").exists()

    def test_vectors_are_counted_in_the_plan(
        self, write_iceberg: Any, delete_from_iceberg: Any, opened: Any, tmp_path: Path
    ) -> None:
        place = delete_from_iceberg(write_iceberg([[1, 2, 3], [4, 5]], version=3), {0: [1], 1: [0]})
        made = plan(opened(place), to="delta")
        assert made.deletes == {"vectors": 2, "position": 0, "equality": 0, "rows": 2}
        assert made.rows == 3
        done = convert(opened(place), to="delta", target=str(tmp_path / "target"))
        assert (done.rows, done.plan.rows) == (3, 3)


class TestIcebergMetrics:
    @pytest.mark.parametrize(
        "changed",
        [
            {"lower_bounds": metric_map({1: pa.array([(9).to_bytes(8, "little")])}, length=1)},
            {"null_value_counts": metric_map({1: pa.array([99])}, length=1)},
            {"null_value_counts": metric_map({1: pa.array([-1])}, length=1)},
            {"value_counts": metric_map({1: pa.array([0])}, length=1)},
        ],
        ids=["bounds out of order", "more nulls than rows", "fewer nulls than none", "fewer values than rows"],
    )
    def test_that_cannot_be_are_left_out(
        self, tmp_path: Path, write_iceberg: Any, opened: Any, delta_rows: Any, changed: dict[str, pa.Array]
    ) -> None:
        (name,) = changed
        place = write_iceberg([[1, 2, 3]], change=with_column(name, changed[name]))
        done = convert(opened(place), to="delta", target=str(tmp_path / "target"))
        assert sorted(delta_rows(done.target)["id"].to_pylist()) == [1, 2, 3]
        report = verify(opened(place), opened(done.target), rows=True, bounds=True)
        assert report.equal, report.to_json()

    def test_a_bound_of_another_width_is_no_bound(self, tmp_path: Path, write_iceberg: Any, opened: Any) -> None:
        odd = metric_map({1: pa.array([b"\x01\x02\x03"])}, length=1)
        place = write_iceberg([[1, 2, 3]], change=with_column("lower_bounds", odd))
        with pytest.raises(Refused, match=r"bound|bytes"):
            convert(opened(place), to="delta", target=str(tmp_path / "target"))
        assert not (tmp_path / "target").exists()


class TestSchemas:
    def iceberg_metadata(self, place: str, change: Callable[[dict[str, Any]], None]) -> None:
        value = json.loads(Path(place).read_text(encoding="utf-8"))
        change(value)
        Path(place).write_text(json.dumps(value), encoding="utf-8")

    def test_two_iceberg_fields_with_one_id(self, tmp_path: Path, write_iceberg: Any, opened: Any) -> None:
        place = write_iceberg([[1]])
        twin = {"id": 1, "name": "twin", "required": False, "type": "long"}
        self.iceberg_metadata(place, lambda value: value["schemas"][0]["fields"].append(twin))
        with pytest.raises(Refused, match="id 1"):
            api.convert(place, to="delta", target=tmp_path / "target")
        assert not (tmp_path / "target").exists()

    @pytest.mark.parametrize("number", [2_147_483_448, 2**31, -1])
    def test_a_delta_id_that_iceberg_cannot_have(
        self, tmp_path: Path, opened: Any, write_delta: Any, number: int
    ) -> None:
        folder = tmp_path / "delta"
        (folder / "_delta_log").mkdir(parents=True)
        pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": "id"}
        column = {"name": "id", "type": "long", "nullable": True, "metadata": mapping}
        actions = [
            {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}},
            {
                "metaData": {
                    "id": "11111111-2222-3333-4444-555555555555",
                    "format": {"provider": "parquet", "options": {}},
                    "schemaString": json.dumps({"type": "struct", "fields": [column]}),
                    "partitionColumns": [],
                    "configuration": {
                        "delta.columnMapping.mode": "name",
                        "delta.columnMapping.maxColumnId": str(number),
                    },
                    "createdTime": 1,
                }
            },
            {
                "add": {
                    "path": "a.parquet",
                    "partitionValues": {},
                    "size": (folder / "a.parquet").stat().st_size,
                    "modificationTime": 1,
                    "dataChange": True,
                    "stats": '{"numRecords":1}',
                }
            },
        ]
        log = folder / "_delta_log" / f"{0:020}.json"
        log.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
        with pytest.raises(Refused, match=str(number)):
            api.convert(folder, to="iceberg", target=str(tmp_path / "target"))
        assert not (tmp_path / "target").exists()
