"""Options of object stores: each goes where it belongs, unknown ones are said, and no panic leaves the storage layer."""

from __future__ import annotations

from pathlib import Path

import pytest

import deltaberg
from deltaberg.errors import UsageError
from deltaberg.storage import StorageError, open_storage
from deltaberg.storage.store_options import _CLOUDS, _USUAL, _knows, options_for, panics_told

CREDENTIALS = {"aws_access_key_id": "a", "aws_secret_access_key": "b", "aws_region": "c"}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("aws_regoin", "aws_region"),
        ("alow_http", "allow_http"),
        ("azure_storage_acount_name", "azure_storage_account_name"),
        ("proxy", "proxy_url"),
    ],
)
def test_an_unknown_name_is_a_usage_error_for_any_table(name: str, meant: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"storage option {name}: no store knows it \(did you mean {meant}\?\)"):
        deltaberg.inspect(tmp_path, storage_options={name: "x"})


def test_names_that_stores_know_are_taken_in_every_spelling() -> None:
    open_storage(
        options={
            **CREDENTIALS, "AWS_ENDPOINT_URL": "http://localhost:1", "endpoint": "http://localhost:1", "region": "x",
            "aws_allow_http": "true", "ALLOW_HTTP": "true", "account_name": "n", "google_service_account": "f",
        }
    )  # fmt: skip


def test_options_of_the_client_are_told_from_those_of_the_store() -> None:
    given = {**CREDENTIALS, "allow_http": "true", "aws_timeout": "3s", "google_service_account": "f"}
    client = {"allow_http": "true", "timeout": "3s"}
    assert options_for("s3://bucket", given) == {"config": CREDENTIALS, "client_options": client}
    assert options_for("gs://bucket", given) == {"config": {"google_service_account": "f"}, "client_options": client}
    assert options_for("abfss://c@a.dfs.core.windows.net", given) == {"config": None, "client_options": client}
    assert options_for("https://account.dfs.core.windows.net/c", {"account_name": "n"})["config"] == {
        "account_name": "n"
    }
    assert options_for("http://host", given) == {"config": None, "client_options": client}


@pytest.mark.parametrize("name", sorted(_USUAL))
def test_the_usual_names_are_those_of_the_store_library(name: str) -> None:
    assert [cloud for cloud, url in _CLOUDS.items() if _knows(url, name)] == [f"{name.partition('_')[0]}_"]


def test_plain_http_may_be_allowed() -> None:
    """Nobody listens there; before, the store library panicked, which is no Exception."""
    options = {**CREDENTIALS, "aws_endpoint": "http://127.0.0.1:9", "allow_http": "true", "timeout": "1s"}
    with pytest.raises(StorageError, match=r"Cannot read s3://bucket/x"):
        open_storage(options=options).get("s3://bucket/x")


def test_a_panic_of_the_store_library_is_a_storage_error() -> None:
    from obstore.store import from_url

    stopped = pytest.raises(
        StorageError, match=r"Cannot open s3://b: the store library stopped \(Expected config prefix"
    )
    with stopped, panics_told("open", "s3://b"):
        from_url("s3://b", config={"allow_http": "true"})  # type: ignore[typeddict-unknown-key]
