"""Options of object stores, by obstore's names: which of them each store takes, and which belong to its client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, cast

from obstore.exceptions import BaseError, UnknownConfigurationKeyError
from obstore.store import from_url

from deltaberg.errors import UsageError
from deltaberg.keywords import nearest
from deltaberg.storage.errors import StorageError

_CLOUDS: Final = {"aws_": "s3://bucket", "google_": "gs://bucket", "azure_": "az://container"}
"""The prefix of a cloud's option names, and a location of that cloud."""
_SCHEMES: Final = {"s3": "aws_", "gs": "google_", **dict.fromkeys(("az", "azure", "adl", "abfs", "abfss"), "azure_")}
_HOSTS: Final = {
    ".amazonaws.com": "aws_",
    ".r2.cloudflarestorage.com": "aws_",
    ".core.windows.net": "azure_",
    ".fabric.microsoft.com": "azure_",
}

_CLIENT: Final = frozenset(
    {
        "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
        "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_max_frame_size",
        "http2_only", "pool_idle_timeout", "pool_max_idle_per_host", "proxy_ca_certificate", "proxy_excludes", "proxy_url",
        "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
    }
)  # fmt: skip
_USUAL: Final = frozenset(
    {
        "aws_access_key_id", "aws_conditional_put", "aws_endpoint", "aws_region", "aws_role_arn", "aws_secret_access_key",
        "aws_session_token", "aws_skip_signature", "aws_virtual_hosted_style_request", "azure_storage_account_key",
        "azure_storage_account_name", "azure_storage_client_id", "azure_storage_client_secret", "azure_storage_sas_key",
        "azure_storage_tenant_id", "azure_storage_token", "google_application_credentials", "google_service_account",
        "google_service_account_key", "google_skip_signature",
    }
)  # fmt: skip
"""Some of the stores' names, to suggest one for a mistyped name; obstore knows more."""


def check_options(options: Mapping[str, str]) -> None:
    """Raise UsageError for a name that no store knows."""
    for name in options:
        if _client_name(name) is None and not _clouds_of(name):
            raise UsageError(
                f"Cannot use the storage option {name}: no store knows it ({nearest(name, _USUAL | _CLIENT)})"
            )


def options_for(url: str, options: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of ``from_url`` for the store of a URL: its own options as ``config``, and ``client_options``."""
    cloud = _cloud_of(url)
    client = {own: value for name, value in options.items() if (own := _client_name(name)) is not None}
    config = {
        name: value
        for name, value in options.items()
        if _client_name(name) is None and cloud is not None and cloud in _clouds_of(name)
    }
    return {"config": config or None, "client_options": client or None}


@contextmanager
def panics_told(doing: str, url: str) -> Iterator[None]:
    """A panic of the store library is no ``Exception``: raise StorageError for it, as for every failure of a store."""
    try:
        yield
    except BaseException as error:
        if type(error).__module__ == "pyo3_runtime":
            reason = str(error).split("\n", 1)[0]
            raise StorageError(f"Cannot {doing} {url}: the store library stopped ({reason})", path=url) from error
        raise


def _cloud_of(url: str) -> str | None:
    scheme, _, rest = url.partition("://")
    if scheme in _SCHEMES:
        return _SCHEMES[scheme]
    host = rest.partition("/")[0]
    return next((cloud for end, cloud in _HOSTS.items() if host.endswith(end)), None)


def _client_name(name: str) -> str | None:
    """The name of an option of the client, which some write with the cloud's before it."""
    plain = name.lower()
    for cloud in _CLOUDS:
        plain = plain.removeprefix(cloud)
    return plain if plain in _CLIENT else None


@cache
def _clouds_of(name: str) -> frozenset[str]:
    """The clouds whose stores have an option of this name. Asking obstore takes as long as making a store."""
    if name.lower() in _USUAL:
        return frozenset(cloud for cloud in _CLOUDS if name.lower().startswith(cloud))
    return frozenset(cloud for cloud, url in _CLOUDS.items() if _knows(url, name))


def _knows(url: str, name: str) -> bool:
    try:
        with panics_told("open", url):
            from_url(url, config=cast("Any", {name: "x"}))
    except UnknownConfigurationKeyError:
        return False
    except (BaseError, StorageError, ValueError, OSError):
        # The value is invalid or insufficient: the name is known.
        return True
    return True
