"""What plan finds: a code for every fact of the source, at its severity, and options that are never ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaberg import api
from deltaberg.errors import UsageError
from deltaberg.iceberg.create_table import create_table
from deltaberg.iceberg.partition.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from deltaberg.iceberg.partition.transforms import parse_transform
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import LongType, NestedField, TimestampType, UuidType
from deltaberg.migrate.convert import convert
from deltaberg.migrate.plan import plan
from deltaberg.migrate.plan_report import Plan
from deltaberg.migrate.refusal import Refused
from deltaberg.migrate.verify.verify import verify
from deltaberg.storage import open_storage
from deltaberg.translate.options import ConvertOptions

IDS = Schema(schema_id=0, fields=(NestedField(field_id=1, name="id", required=False, type=LongType()),))
WriteIceberg = Callable[..., str]


def findings(made: Plan) -> dict[str, str]:
    """Severity by code."""
    return {item.code: item.severity for item in made.items}


@pytest.fixture
def write_iceberg(tmp_path: Path, write_iceberg_file: Any) -> WriteIceberg:
    """``write_iceberg(schema, rows, spec, ...)``: a table of one file (none without rows)."""

    def write(schema: Schema, rows: pa.Table | None, spec: PartitionSpec = UNPARTITIONED, **options: Any) -> str:
        root = str(tmp_path / "iceberg")
        with create_table(open_storage(), root, schema=schema, spec=spec, **options) as transaction:
            if rows is not None:
                transaction.snapshot("append").add_files([write_iceberg_file(root, schema, rows, spec)], spec.spec_id)
            transaction.commit()
        return root

    return write


def write_log(
    folder: Path, *actions: Mapping[str, Any], schema: list[dict[str, Any]] | None = None, **metadata: Any
) -> Path:
    """A Delta log of one commit with these actions after protocol and metadata."""
    columns = schema or [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    features = metadata.pop("features", None)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    if features:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": features,
            "writerFeatures": features,
        }
    described = {
        "id": "11111111-2222-3333-4444-555555555555",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 1,
        **metadata,
    }
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    lines = [{"protocol": protocol}, {"metaData": described}, *actions]
    (log / f"{0:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def add(folder: Path, rows: pa.Table, **members: Any) -> dict[str, Any]:
    """The action that adds a file of these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder / "a.parquet")
    return {
        "add": {
            "path": "a.parquet",
            "partitionValues": {},
            "size": (folder / "a.parquet").stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps({"numRecords": rows.num_rows}),
            **members,
        }
    }


class TestSeverities:
    def test_information(self, write_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": pa.array([1], pa.int8())}))
        made = plan(opened(folder), to="iceberg")
        assert findings(made) == {"type-widened": "info", "read-by-name-mapping": "info"}
        assert not made.refused
        assert (made.files, made.rows, made.shared_files, made.rewritten_files) == (1, 1, 1, 0)

    def test_shredded_variants_are_not_read_by_vectors(self, tmp_path: Path, opened: Any) -> None:
        columns = [{"name": "v", "type": "variant", "nullable": True, "metadata": {}}]
        folder = write_log(tmp_path / "delta", schema=columns, features=["variantType", "variantShredding-preview"])
        result = convert(opened(folder), to="iceberg", target=str(tmp_path / "target"))
        assert "shredded-variants" in findings(result.plan)
        metadata = json.loads(Path(result.target_metadata).read_text())
        assert metadata["properties"]["read.parquet.vectorization.enabled"] == "false"

    def test_how_far_applications_have_written_is_recorded(self, tmp_path: Path, opened: Any) -> None:
        """The ones of deltaberg say from what table a target was made: they are no business of the next target."""
        apps = [{"txn": {"appId": name, "version": 7}} for name in ("stream", "deltaberg:iceberg:uuid")]
        source = opened(write_log(tmp_path / "delta", *apps))
        assert findings(plan(source, to="iceberg"))["transactions-recorded"] == "info"
        result = convert(source, to="iceberg", target=str(tmp_path / "target"))
        metadata = json.loads(Path(result.target_metadata).read_text())
        assert json.loads(metadata["properties"]["deltaberg.delta.transactions"]) == {"stream": 7}

    def test_a_warning_that_strict_turns_into_a_rewrite(self, tmp_path: Path, opened: Any, iceberg_rows: Any) -> None:
        rows = pa.table({"id": pa.array([0], pa.timestamp("ns"))})
        folder = tmp_path / "delta"
        folder.mkdir()
        pq.write_table(rows, folder / "a.parquet", use_deprecated_int96_timestamps=True)
        moment = "2024-01-01T00:00:00.000Z"
        stats = {"numRecords": 1, "minValues": {"id": moment}, "maxValues": {"id": moment}, "nullCount": {"id": 0}}
        file = {
            "path": "a.parquet",
            "partitionValues": {},
            "size": (folder / "a.parquet").stat().st_size,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        write_log(folder, {"add": file}, schema=[{"name": "id", "type": "timestamp", "nullable": True, "metadata": {}}])
        lenient = plan(opened(folder), to="iceberg")
        assert findings(lenient)["int96-timestamps"] == "warning"
        assert lenient.rewritten_files == 0
        strict = ConvertOptions(strict=True)
        made = plan(opened(folder), to="iceberg", options=strict)
        assert findings(made)["int96-timestamps"] == "rewrite"
        assert made.rewritten_files == 1
        done = convert(opened(folder), to="iceberg", options=strict)
        assert done.rewritten_files == 1
        assert iceberg_rows(done.target_metadata)["id"].cast(pa.int64()).to_pylist() == [0]

    @pytest.mark.parametrize("nested", [False, True])
    def test_maps_whose_group_has_another_name_than_parquets_are_told_of(
        self, nested: bool, write_delta: Any, opened: Any, independent: Any, difference: Any
    ) -> None:
        """DuckDB stops at them by the name mapping; rewritten, they have the usual group and ids."""
        entries = pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()))
        rows = pa.table({"id": [1, 2, 3], "m": pa.StructArray.from_arrays([entries], ["inner"]) if nested else entries})
        folder = write_delta(rows)
        source = opened(folder)
        (item,) = (item for item in plan(source, to="iceberg").items if item.code == "map-group-names")
        assert (item.severity, item.what, item.files) == ("warning", "m", 1)
        lenient = convert(source, to="iceberg")
        assert lenient.rewritten_files == 0
        stopped = independent.read("duckdb-iceberg", lenient.target_metadata)
        assert isinstance(stopped, str)
        assert "'key' of MAP did not map to a value" in stopped
        assert not difference(independent.read("pyiceberg", lenient.target_metadata), rows)
        strict = convert(source, to="iceberg", target=f"{folder}-strict", options=ConvertOptions(strict=True))
        assert strict.rewritten_files == 1
        assert not difference(independent.read("duckdb-iceberg", strict.target_metadata), rows)

    def test_maps_with_the_usual_group_are_not_told_of(self, write_delta: Any, opened: Any, independent: Any) -> None:
        rows = pa.table({"m": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))})
        folder = write_delta(rows)
        (file,) = folder.glob("*.parquet")
        pq.write_table(rows, file)
        done = convert(opened(folder), to="iceberg")
        assert "map-group-names" not in findings(done.plan)
        assert independent.read("duckdb-iceberg", done.target_metadata).equals(rows)

    def test_a_promotion_of_version_3_asks_for_it_and_below_it_for_a_rewrite(
        self, tmp_path: Path, opened: Any, iceberg_rows: Any
    ) -> None:
        """Dates under a column that was widened to a timestamp; the version is the lowest that carries everything."""
        folder = tmp_path / "delta"
        file = add(folder, pa.table({"id": pa.array([1], pa.date32())}))
        changes = {"delta.typeChanges": [{"fromType": "date", "toType": "timestamp_ntz"}]}
        column = {"name": "id", "type": "timestamp_ntz", "nullable": True, "metadata": changes}
        write_log(folder, file, schema=[column], features=["timestampNtz", "typeWidening"])
        made = plan(opened(folder), to="iceberg")
        assert (made.target["format_version"], made.rewritten_files) == (3, 0)
        assert findings(made)["format-version-chosen"] == "info"
        asked = ConvertOptions(format_version=2)
        done = convert(opened(folder), to="iceberg", options=asked)
        assert (done.plan.target["format_version"], done.rewritten_files) == (2, 1)
        assert iceberg_rows(done.target_metadata)["id"].cast(pa.int64()).to_pylist() == [86_400_000_000]

    def test_vectors_of_files_that_are_all_written_anew_are_not_claimed(
        self, write_delta: Any, delete_from_delta: Any, opened: Any, iceberg_rows: Any
    ) -> None:
        """Nor do they ask for version 3. Of the files that are shared they are, and do; to version 1 they are no obstacle."""
        folder = write_delta(pa.table({"at": pa.array([0, 1, 2], pa.timestamp("us", "UTC"))}))
        (file,) = folder.glob("*.parquet")
        old = {"legacy": pa.array([0, 1000, 2000], pa.timestamp("ns"))}
        pq.write_table(pa.table(old).rename_columns(["at"]), file, use_deprecated_int96_timestamps=True)
        delete_from_delta(folder, {0: [1]})
        shared = plan(opened(folder), to="iceberg")
        assert shared.target["format_version"] == 3
        assert {item.code: item.files for item in shared.items}["deletion-vectors-copied"] == 1
        for version, code in ((2, "deletion-vectors-to-position-deletes"), (1, "deletes-need-version-2")):
            asked = plan(opened(folder), to="iceberg", options=ConvertOptions(format_version=version))
            assert code in findings(asked)
            without = plan(opened(folder), to="iceberg", options=ConvertOptions(format_version=version, strict=True))
            assert code not in findings(without)
        strict = ConvertOptions(strict=True)
        done = convert(opened(folder), to="iceberg", options=strict)
        assert (done.plan.rewritten_files, done.plan.target["format_version"]) == (1, 2)
        assert not {code for code in findings(done.plan) if code.startswith("deletion-vectors")}
        metadata = json.loads(Path(done.target_metadata).read_text())
        assert metadata["format-version"] == 2
        assert metadata["snapshots"][0]["summary"]["operation"] == "append"
        assert iceberg_rows(done.target_metadata)["at"].cast(pa.int64()).to_pylist() == [0, 2]

    def test_a_warning_that_strict_turns_into_a_refusal(self, tmp_path: Path, opened: Any) -> None:
        folder = tmp_path / "delta"
        file = add(folder, pa.table({"id": [1]}), partitionValues={"at": "2024-01-01 00:00:00"})
        columns = [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
        ]
        write_log(folder, file, schema=columns, partitionColumns=["at"])
        assert findings(plan(opened(folder), to="iceberg"))["partition-timezone"] == "warning"
        strict = plan(opened(folder), to="iceberg", options=ConvertOptions(strict=True))
        assert findings(strict)["partition-timezone"] == "refuse"
        assert strict.refused

    def test_the_most_severe_come_first(self, write_iceberg: WriteIceberg, opened: Any) -> None:
        schema = Schema(
            schema_id=0, fields=(*IDS.fields, NestedField(field_id=2, name="u", required=False, type=UuidType()))
        )
        rows = pa.table({"id": pa.array([1]), "u": pa.array([b"0" * 16], pa.binary(16))})
        root = write_iceberg(schema, rows, properties={"s3.secret-access-key": "hidden"})
        made = plan(opened(root), to="delta")
        severities = [item.severity for item in made.items]
        assert severities == sorted(severities, key=["refuse", "rewrite", "warning", "info"].index)
        assert findings(made)["type-not-in-delta"] == "refuse"
        assert findings(made)["secret-property-left-out"] == "warning"
        assert "hidden" not in json.dumps(made.to_json())
        mapped = plan(opened(root), to="delta", options=ConvertOptions(type_mappings={"uuid": "string"}))
        (item,) = (each for each in mapped.items if each.code == "type-mapped")
        assert (item.severity, item.what, item.files) == ("rewrite", "u", 1)
        assert item.reason.endswith("(uuid)")
        assert not mapped.refused
        assert mapped.rewritten_files == 1

    def test_a_table_without_a_snapshot(
        self, tmp_path: Path, write_iceberg: WriteIceberg, opened: Any, delta_rows: Any
    ) -> None:
        root = write_iceberg(IDS, None)
        assert findings(plan(opened(root), to="delta"))["no-snapshot"] == "info"
        done = convert(opened(root), to="delta", target=str(tmp_path / "delta"))
        assert delta_rows(done.target).num_rows == 0
        assert done.commits[0][1] == 0


class TestContradictorySources:
    """Each is named, or carried without the broken part; nothing is written and no foreign exception comes out."""

    def refuse(self, folder: Path, words: str) -> None:
        before = {path for path in folder.rglob("*") if path.is_file()}
        with pytest.raises(Refused, match=words):
            api.convert(folder, to="iceberg")
        assert {path for path in folder.rglob("*") if path.is_file()} == before

    def test_more_rows_deleted_than_the_file_has(self, write_delta: Any, delete_from_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1, 2, 3]}))
        delete_from_delta(folder, {0: [0]}, cardinality=10)
        made = plan(opened(folder), to="iceberg")
        assert findings(made)["deletion-vector-exceeds-file"] == "refuse"
        self.refuse(folder, "deletion-vector-exceeds-file: .*10 of 3 rows")

    def test_a_vector_of_another_cardinality(self, write_delta: Any, delete_from_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1, 2, 3]}))
        delete_from_delta(folder, {0: [0]}, cardinality=2)
        self.refuse(folder, "cardinality|positions")

    def test_a_vector_with_a_position_behind_the_file(
        self, write_delta: Any, delete_from_delta: Any, opened: Any
    ) -> None:
        folder = write_delta(pa.table({"id": [1, 2, 3]}))
        delete_from_delta(folder, {0: [7]})
        self.refuse(folder, "position|row")

    @pytest.mark.parametrize(
        ("kind", "text"), [("integer", "seven"), ("date", "2024-13-01"), ("boolean", "yes"), ("decimal(4,2)", "1.234")]
    )
    def test_a_partition_value_that_does_not_parse(self, tmp_path: Path, opened: Any, kind: str, text: str) -> None:
        folder = tmp_path / "delta"
        columns = [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": kind, "nullable": True, "metadata": {}},
        ]
        file = add(folder, pa.table({"id": [1]}), partitionValues={"p": text})
        write_log(folder, file, schema=columns, partitionColumns=["p"])
        self.refuse(folder, rf"(?s)p\b.*{text}|{text}.*\bp\b")

    def test_two_fields_with_one_id(self, tmp_path: Path, opened: Any) -> None:
        folder = tmp_path / "delta"
        columns = [
            {
                "name": name,
                "type": "long",
                "nullable": True,
                "metadata": {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": name},
            }
            for name in ("a", "b")
        ]
        file = add(folder, pa.table({"a": [1], "b": [2]}))
        configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
        write_log(folder, file, schema=columns, configuration=configuration, features=["columnMapping"])
        self.refuse(folder, r"\b1\b")

    @pytest.mark.parametrize(
        "stats",
        [
            '{"numRecords":2,"minValues":{"id":"x"},"maxValues":{"id":"y"}}',
            '{"numRecords":2,"minValues":{"id":9},"maxValues":{"id":1},"nullCount":{"id":0}}',
            '{"numRecords":2,"minValues":7,"nullCount":{"id":"many"}}',
            '{"numRecords":2,"nullCount":{"id":99}}',
            '{"numRecords":"2"}',
            '{"numRecords":-5}',
            "{not json",
            "",
            "[]",
        ],
    )
    def test_statistics_that_cannot_be_are_left_out(
        self, tmp_path: Path, opened: Any, iceberg_rows: Any, stats: str
    ) -> None:
        folder = write_log(tmp_path / "delta", add(tmp_path / "delta", pa.table({"id": [1, 9]}), stats=stats))
        done = convert(opened(folder), to="iceberg")
        assert done.rows == 2
        assert iceberg_rows(done.target_metadata)["id"].to_pylist() == [1, 9]
        report = verify(opened(folder), opened(done.target), rows=True, bounds=True)
        assert report.equal, report.to_json()

    def test_a_file_that_is_not_there(self, tmp_path: Path, opened: Any) -> None:
        folder = tmp_path / "delta"
        file = add(folder, pa.table({"id": [1]}))
        write_log(folder, file)
        (folder / "a.parquet").unlink()
        with pytest.raises(Refused, match=r"a\.parquet"):
            convert(opened(folder), to="iceberg")
        assert not (folder / "_iceberg").exists()


class TestEveryOptionCounts:
    """An option changes what is planned, or is refused; none is accepted and ignored."""

    def test_each_is_looked_at_below(self) -> None:
        looked_at = {
            "format_version",
            "history",  # test_history.py
            "strict",
            "deep",
            "column_mapping",
            "derive_partition_columns",
            "former_names",
            "type_mappings",
            "partition_timezone",
            "iceberg_compat",
            "engine",
            "target_file_size",
        }
        assert {field.name for field in fields(ConvertOptions)} == looked_at

    @pytest.mark.parametrize(
        "option",
        [
            {"column_mapping": "name"},
            {"derive_partition_columns": True},
            {"former_names": "rewrite"},
            {"type_mappings": {"uuid": "string"}},
            {"iceberg_compat": "v2"},
        ],
        ids=lambda option: next(iter(option)),
    )
    def test_those_of_delta_targets_do_not_apply_to_iceberg(
        self, write_delta: Any, opened: Any, option: dict[str, Any]
    ) -> None:
        folder = write_delta(pa.table({"id": [1]}))
        (name,) = option
        flag = "map" if name == "type_mappings" else name.replace("_", "-")
        for act in (plan, convert):
            with pytest.raises(UsageError, match=f"with --{flag}: it is for Delta targets only"):
                act(opened(folder), to="iceberg", options=ConvertOptions(**option))

    @pytest.mark.parametrize(
        "option",
        [{"format_version": 2}, {"partition_timezone": "Europe/Berlin"}],
        ids=lambda option: next(iter(option)),
    )
    def test_those_of_iceberg_targets_do_not_apply_to_delta(
        self, write_iceberg: WriteIceberg, opened: Any, option: dict[str, Any]
    ) -> None:
        root = write_iceberg(IDS, pa.table({"id": [1]}))
        flag = next(iter(option)).replace("_", "-")
        for act in (plan, convert):
            with pytest.raises(UsageError, match=f"with --{flag}: it is for Iceberg targets only"):
                act(opened(root), to="delta", options=ConvertOptions(**option))

    def test_format_version(self, write_delta: Any, opened: Any) -> None:
        folder = write_delta(pa.table({"id": [1]}))
        for version in (1, 2, 3):
            made = plan(opened(folder), to="iceberg", options=ConvertOptions(format_version=version))
            assert made.target["format_version"] == version
        for version in (0, 4):
            with pytest.raises(UsageError, match="must be one of 1, 2, 3"):
                plan(opened(folder), to="iceberg", options=ConvertOptions(format_version=version))

    def test_partition_timezone(self, tmp_path: Path, opened: Any, iceberg_rows: Any) -> None:
        folder = tmp_path / "delta"
        file = add(folder, pa.table({"id": [1]}), partitionValues={"at": "2024-01-01 00:00:00"})
        columns = [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
        ]
        write_log(folder, file, schema=columns, partitionColumns=["at"])
        moments = []
        for zone in ("UTC", "Asia/Tokyo"):
            options = ConvertOptions(partition_timezone=zone)
            done = convert(opened(folder), to="iceberg", target=str(tmp_path / zone), options=options)
            moments.append(iceberg_rows(done.target_metadata)["at"].cast(pa.int64())[0].as_py())
        assert moments[0] - moments[1] == 9 * 3_600_000_000
        with pytest.raises(UsageError, match="Cannot use the time zone 'Mars'"):
            plan(opened(folder), to="iceberg", options=ConvertOptions(partition_timezone="Mars"))

    @pytest.mark.parametrize("mode", ["id", "name", "none"])
    def test_column_mapping(self, write_iceberg: WriteIceberg, opened: Any, mode: Any) -> None:
        root = write_iceberg(IDS, pa.table({"id": [1]}))
        made = plan(opened(root), to="delta", options=ConvertOptions(column_mapping=mode))
        assert made.target["column_mapping"] == mode

    def test_type_mappings_must_be_known(self, write_iceberg: WriteIceberg, opened: Any) -> None:
        root = write_iceberg(IDS, pa.table({"id": [1]}))
        for mapping in ({"uuid": "long"}, {"colour": "string"}):
            with pytest.raises(UsageError, match=r"Cannot map type .* expected one of .*uuid=string"):
                plan(opened(root), to="delta", options=ConvertOptions(type_mappings=mapping))

    def test_derive_partition_columns(self, tmp_path: Path, write_iceberg: WriteIceberg, opened: Any) -> None:
        schema = Schema(
            schema_id=0, fields=(*IDS.fields, NestedField(field_id=2, name="at", required=False, type=TimestampType()))
        )
        day = PartitionField(source_ids=(2,), field_id=1000, name="at_day", transform=parse_transform("day"))
        rows = pa.table({"id": [1], "at": pa.array([0], pa.timestamp("us"))})
        root = write_iceberg(schema, rows, PartitionSpec(spec_id=0, fields=(day,)))
        assert plan(opened(root), to="delta").target["partitioning"] == []
        derived = plan(opened(root), to="delta", options=ConvertOptions(derive_partition_columns=True))
        assert derived.target["partitioning"] == ["at_day"]
        assert findings(derived)["partition-column-derived"] == "info"

    def test_iceberg_compat(self, tmp_path: Path, write_iceberg: WriteIceberg, opened: Any) -> None:
        root = write_iceberg(IDS, pa.table({"id": [1]}))
        options = ConvertOptions(iceberg_compat="v2")
        done = convert(opened(root), to="delta", target=str(tmp_path / "delta"), options=options)
        snapshot = opened(done.target).snapshot
        assert snapshot.metadata.configuration["delta.enableIcebergCompatV2"] == "true"
        assert snapshot.protocol.supports("icebergCompatV2")

    def test_engine(self, write_iceberg: WriteIceberg, opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """``auto`` does not rewrite unasked what is too much for one machine, and says which command does."""
        schema = Schema(schema_id=0, fields=(NestedField(field_id=1, name="u", required=False, type=UuidType()),))
        root = write_iceberg(schema, pa.table({"u": pa.array([b"0" * 16], pa.binary(16))}))
        for limit, engine, refused in (
            (1 << 30, "auto", False),
            (1, "auto", True),
            (1, "local", False),
            (1, "spark", False),
        ):
            monkeypatch.setattr("deltaberg.migrate.plan.LOCAL_LIMIT_BYTES", limit)
            options = ConvertOptions(type_mappings={"uuid": "string"}, engine=engine)  # type: ignore[arg-type]
            made = plan(opened(root), to="delta", options=options)
            assert made.refused is refused
            size = sum(each.stat().st_size for each in Path(root, "data").iterdir())
            assert made.cost == {"files": 1, "read_bytes": size, "write_bytes": size}
            (found,) = [item for item in made.items if item.code == "rewrite-elsewhere"] or [None]
            assert (found is not None) is refused
            if found is not None:
                assert f"deltaberg convert {root} --to delta --engine spark" in found.remedy

    def test_target_file_size(self, write_iceberg: WriteIceberg, opened: Any) -> None:
        root = write_iceberg(IDS, pa.table({"id": [1]}))
        small = ConvertOptions(target_file_size=1000)
        with pytest.raises(UsageError, match="Cannot write files of 1000 bytes: --target-file-size is at least 1 MiB"):
            plan(opened(root), to="delta", options=small)
        replay = ConvertOptions(target_file_size=1 << 20, history="all")
        with pytest.raises(UsageError, match="--target-file-size does not go with --history all"):
            plan(opened(root), to="delta", options=replay)

    def test_deep(self, tmp_path: Path, opened: Any, write_delta: Any) -> None:
        """A second file of the same commit that differs from the sampled one is found by looking at every footer."""
        folder = tmp_path / "delta"
        folder.mkdir()
        files = []
        for name, odd in (("a.parquet", False), ("b.parquet", True)):
            rows = pa.table({"id": pa.array([0], pa.timestamp("ns", "UTC"))})
            pq.write_table(
                rows,
                folder / name,
                **({"use_deprecated_int96_timestamps": True} if odd else {"coerce_timestamps": "us"}),
            )
            size = (folder / name).stat().st_size
            file = {"path": name, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
            files.append({"add": {**file, "stats": '{"numRecords":1}'}})
        write_log(folder, *files, schema=[{"name": "id", "type": "timestamp", "nullable": True, "metadata": {}}])
        made = plan(opened(folder), to="iceberg", options=ConvertOptions(deep=True))
        assert findings(made)["int96-out-of-range"] == "rewrite"
        assert made.rewritten_files == 1
