"""Secrets: refused in what is typed, and nowhere in what is printed, raised or written."""

from __future__ import annotations

import json
import string
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaberg
from deltaberg.batch_file import read_tables
from deltaberg.errors import DeltabergError, UsageError, error_context
from deltaberg.iceberg.manifest.live_files import data_files
from deltaberg.iceberg.table import Table
from deltaberg.migrate.source import TableFormat, open_source
from deltaberg.migrate.spark.batch import TableRequest
from deltaberg.redaction import has_secret, hide_options, redacted, redacted_json
from deltaberg.storage import StorageError, absolute_location, open_storage

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCY"
PLAIN_SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCY"
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def write_delta() -> Callable[..., Path]:
    """delta-rs writes a table; its folder."""
    deltalake = pytest.importorskip("deltalake")

    def write(rows: pa.Table, folder: Path, **options: Any) -> Path:
        deltalake.write_deltalake(str(folder), rows, **options)
        return folder

    return write


WITH_SECRET = (
    f"s3://AKIAIOSFODNN7EXAMPLE:{PLAIN_SECRET}@bucket/t",
    f"s3a://AKIAIOSFODNN7EXAMPLE:{SECRET}@bucket/t",
    f"https://user:{PLAIN_SECRET}@host/t",
    f"https://:{PLAIN_SECRET}@host/t",
    f"https://{PLAIN_SECRET}@host/t",
    f"https://host:8443/t?sv=2023-01-01&sig={PLAIN_SECRET}",
    f"abfss://container@account.dfs.core.windows.net/t?sig={PLAIN_SECRET}",
    f"https://bucket.s3.amazonaws.com/t?X-Amz-Algorithm=AWS4&X-Amz-Signature={PLAIN_SECRET}",
    f"https://bucket.s3.amazonaws.com/t?x-amz-security-token={PLAIN_SECRET}&a=b",
    f"https://storage.googleapis.com/b/t?X-Goog-Signature={PLAIN_SECRET}",
    f"https://host/t?token={PLAIN_SECRET}",
    f"https://host/t?access_token={PLAIN_SECRET}#x",
    f"gs://user:{PLAIN_SECRET}@bucket/t",
    f"s3://bucket/t?AWSAccessKeyId=x&Signature={PLAIN_SECRET}",
    f"s3://bucket/t?a=b&secret_access_key={PLAIN_SECRET}",
    f"hdfs://user:{PLAIN_SECRET}@namenode:8020/t",
)
WITHOUT_SECRET = (
    "/a/b?token=x",
    "/home/user:x@y/t",
    "file:///a:b@c/t?sig=1",
    "s3://bucket/p=a:b@c/t",
    "s3://bucket/p=a?b/t",
    "abfss://container@account.dfs.core.windows.net/t",
    "hdfs://namenode:8020/a@b",
    "https://host:8443/a@b/t",
    "https://host/t?versionId=3",
    "s3://bucket/signature=3/token=4",
    "memory://x/y",
    "relative/x:y@z",
)


@pytest.mark.parametrize("location", WITH_SECRET)
class TestALocationWithASecret:
    def test_is_refused_and_not_repeated(self, location: str, command: Any, tmp_path: Path, write_delta: Any) -> None:
        folder = write_delta(ROWS, tmp_path / "t")
        for call in (
            ("inspect", location),
            ("scan", location),
            ("history", location),
            ("plan", location, "--to", "iceberg"),
            ("convert", location, "--to", "iceberg", "-v"),
            ("convert", folder, "--to", "iceberg", "--target", location),
            ("plan", folder, "--to", "iceberg", "--target", location, "-v"),
            ("verify", folder, location),
            ("scan", folder, "--out", f"{location}.parquet"),
            ("inspect", folder, "--allow-location", location),
            ("inspect", folder, "--relocate", f"/x={location}"),
        ):
            for more in ((), ("--json",)):
                outcome = command(*call, *more)
                assert outcome.code == 2, (call, outcome)
                assert "credentials" in outcome.err
                assert "environment" in outcome.err
                shows_nothing(outcome.out, outcome.err)
        assert not (folder / "_iceberg").exists()

    def test_is_refused_in_python_too(self, location: str) -> None:
        calls: tuple[Callable[[], Any], ...] = (
            lambda: deltaberg.convert(location, to="delta"),
            lambda: open_source(location, open_storage()),
            lambda: TableRequest(name="t", source=location, to=TableFormat.DELTA).open_source(),
            lambda: read_tables(json.dumps([{"source": location, "to": "delta"}])),
            lambda: open_storage(relocate={"/x": location}),
        )
        for call in calls:
            with pytest.raises(UsageError, match="carries credentials") as caught:
                call()
            shows_nothing(str(caught.value), repr(caught.value), "".join(traceback.format_exception(caught.value)[-1:]))

    def test_is_redacted_in_any_text(self, location: str) -> None:
        assert has_secret(location)
        text = redacted(f"Cannot read {location}: no such file (expected {location!r}), and s3://b/x")
        shows_nothing(text)
        assert text.startswith("Cannot read ")
        assert text.endswith(", and s3://b/x")
        shows_nothing(json.dumps(redacted_json({"a": [location, {"b": location}], "c": 1, "d": None})))

    def test_is_redacted_in_errors_whoever_sets_it(self, location: str) -> None:
        with pytest.raises(DeltabergError) as caught, error_context(table=location, path=f"{location}/x"):
            raise StorageError(f"Cannot read {location}", feature=location)
        error = caught.value
        error.version = location
        shows_nothing(
            str(error), repr(error), error.message, *map(str, (error.table, error.path, error.feature, error.version))
        )


@pytest.mark.parametrize("location", WITHOUT_SECRET)
def test_an_ordinary_location_is_none(location: str) -> None:
    assert not has_secret(location)
    assert absolute_location(location)


@given(
    st.text(alphabet=string.ascii_letters + string.digits + "+/=._-", min_size=6, max_size=60),
    st.sampled_from(["s3", "https", "gs"]),
)
def test_no_password_of_a_url_is_left(password: str, scheme: str) -> None:
    if password.isdigit() or ("/" in password and password.partition("/")[0].isdigit()):
        return  # a port
    text = redacted(f"x {scheme}://user:{password}@host/a: y")
    assert text == f"x {scheme}://***@host/a: y"


@given(st.text(max_size=200))
def test_redaction_is_done_once_and_for_all(text: str) -> None:
    assert redacted(redacted(text)) == redacted(text)


def shows_nothing(*texts: str) -> None:
    for text in texts:
        assert PLAIN_SECRET not in text
        assert SECRET not in text
        assert "K7MDENG" not in text


class TestSecretsInMetadata:
    """Every output and every written file of a table whose metadata has secrets in it."""

    @pytest.fixture
    def delta(self, tmp_path: Path, write_delta: Any) -> Path:
        folder = Path(write_delta(ROWS, tmp_path / "t", description=f"from https://u:{PLAIN_SECRET}@host/x"))
        log = folder / "_delta_log" / f"{0:020}.json"
        configuration = {
            "s3.secret-access-key": PLAIN_SECRET,
            "fs.azure.account.key.x": PLAIN_SECRET,
            "origin": f"s3://KEY:{SECRET}@bucket/x",
            "link": f"https://h/x?sig={PLAIN_SECRET}",
            "plain": "kept",
        }
        text = log.read_text()
        changed = text.replace('"configuration":{}', f'"configuration":{json.dumps(configuration)}')
        assert changed != text
        log.write_text(changed)
        return folder

    def test_of_properties_and_descriptions(self, delta: Path, command: Any, tmp_path: Path) -> None:
        ice, back = tmp_path / "ice", tmp_path / "back"
        calls = (
            ("inspect", delta),
            ("history", delta),
            ("plan", delta, "--to", "iceberg"),
            ("convert", delta, "--to", "iceberg", "--target", ice),
            ("verify", delta, ice, "--rows"),
            ("inspect", ice),
            ("plan", ice, "--to", "delta", "--target", back),
            ("convert", ice, "--to", "delta", "--target", back),
            ("verify", ice, back),
        )
        for call in calls:
            for more in ((), ("--json",), ("-v",)):
                outcome = command(*call, *more)
                assert outcome.code == 0, outcome.err
                shows_nothing(outcome.out, outcome.err)
        written = [path for root in (ice, back) for path in root.rglob("*") if path.is_file()]
        assert len(written) > 6
        shows_nothing(*(path.read_bytes().decode("latin-1") for path in written))
        assert json.loads(command("inspect", ice, "--json").out)["properties"]["plain"] == "kept"

    @pytest.mark.parametrize("add_path", WITH_SECRET[:8])
    def test_of_paths(self, add_path: str, delta: Path, command: Any) -> None:
        log = delta / "_delta_log" / f"{0:020}.json"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["path"] = f"{add_path}/f.parquet" if "?" not in add_path else add_path
        log.write_text("\n".join(map(json.dumps, lines)) + "\n")
        allow = ("--allow-location", add_path.partition("?")[0].rpartition("@")[2] and "s3://bucket")
        for call in (
            ("inspect", delta),
            ("plan", delta, "--to", "iceberg"),
            ("convert", delta, "--to", "iceberg"),
            ("scan", delta),
        ):
            for more in ((), ("--json",), ("-v",), allow):
                outcome = command(*call, *more)
                assert outcome.code == (0 if call[0] == "inspect" else 3), outcome.err
                shows_nothing(outcome.out, outcome.err)
        assert not (delta / "_iceberg").exists()

    def test_of_paths_of_an_iceberg_table(self, delta: Path, command: Any, tmp_path: Path) -> None:
        ice = tmp_path / "ice"
        deltaberg.convert(delta, to="iceberg", target=ice)
        table = Table.open(str(ice), open_storage())
        (batch,) = data_files(table, table.metadata.current_snapshot)
        place = batch.schema.get_field_index("file_path")
        moved = batch.set_column(place, "file_path", pa.array([f"s3://bucket/f?X-Amz-Signature={PLAIN_SECRET}"]))
        with table.transaction() as transaction:
            transaction.snapshot("append").add_files([moved], moved.column("spec_id")[0].as_py())
            transaction.commit()
        for call in (("plan", ice, "--to", "delta"), ("convert", ice, "--to", "delta", "--json", "-v")):
            outcome = command(*call, "--allow-location", "s3://bucket")
            assert outcome.code == 3
            shows_nothing(outcome.out, outcome.err)
        assert not (ice / "_delta_log").exists()


class TestStorageOptions:
    def test_do_not_appear_in_errors(self) -> None:
        options = {
            "aws_secret_access_key": PLAIN_SECRET,
            "azure_storage_sas_token": f"sv=1&sig={PLAIN_SECRET}x",
            "aws_region": "eu-west-1",
        }
        open_storage(options=options)
        error = StorageError(f"Cannot read: the store says {PLAIN_SECRET} and sv=1&sig={PLAIN_SECRET}x of eu-west-1")
        assert str(error).startswith("Cannot read: the store says *** and ")
        assert str(error).endswith(" of eu-west-1")
        shows_nothing(str(error))

    @pytest.mark.parametrize("options", [
        {"aws_secret_access_key": PLAIN_SECRET, "aws_access_key_id": "AKIAIOSFODNN7EXAMPLE", "no such": PLAIN_SECRET},
        {"aws_secret_access_key": PLAIN_SECRET, "aws_endpoint_url": "no url"},
        {"azure_storage_sas_token": PLAIN_SECRET},
    ])  # fmt: skip
    def test_do_not_appear_in_what_obstore_says(self, options: dict[str, str]) -> None:
        for url in ("s3://bucket/t", "abfss://c@account.dfs.core.windows.net/t", "gs://bucket/t"):
            with pytest.raises(DeltabergError) as caught:
                deltaberg.inspect(url, storage_options={**options, "unknown_key": PLAIN_SECRET})
            shows_nothing("".join(traceback.format_exception(caught.value)[-1:]), str(caught.value), repr(caught.value))

    def test_do_not_appear_in_a_list_of_tables(self) -> None:
        with pytest.raises(UsageError) as caught:
            read_tables(json.dumps([{"source": "/t", "to": "delta", "storage_options": {"k": [PLAIN_SECRET]}}]))
        assert "storage_options must be an object of texts" in str(caught.value)
        shows_nothing(str(caught.value))
        request = TableRequest(name="t", source="/t", to=TableFormat.DELTA, storage_options={"k": PLAIN_SECRET})
        shows_nothing(repr(request))

    def test_of_which_one_is_a_part_of_another_are_hidden_whole(self) -> None:
        hide_options({"aws_secret_access_key": "within-it"})
        hide_options({"aws_session_token": "it-is-within-it-too"})
        assert redacted("found it-is-within-it-too") == "found ***"

    def test_that_are_short_or_no_secrets_stay_in_texts(self) -> None:
        hide_options({"aws_region": "nowhere-in-texts", "aws_secret_access_key": "ab"})
        assert redacted("ab nowhere-in-texts") == "ab nowhere-in-texts"
