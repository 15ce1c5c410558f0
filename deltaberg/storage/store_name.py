"""The store that a URL belongs to: a bucket, a container or a host."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from deltaberg.storage.errors import StorageError

_AZURE_HOSTS: Final = (
    ".dfs.core.windows.net",
    ".blob.core.windows.net",
    ".dfs.fabric.microsoft.com",
    ".blob.fabric.microsoft.com",
)


def root_and_key(url: str) -> tuple[str, str]:
    """The URL of the store, without a slash at its end, and the key in it. Raises StorageError for a URL without a host."""
    scheme, colon, rest = url.partition(":")
    if not rest.startswith("//"):
        raise StorageError(f"Cannot use the location {url!r}: no host or bucket (expected {scheme}://...)", path=url)
    host, _, key = rest[2:].partition("/")
    root = f"{scheme}{colon}//{host}"
    if scheme in {"http", "https"}:
        name = urlsplit(root).hostname or ""
        by_path = name.endswith(_AZURE_HOSTS) or name.endswith(".r2.cloudflarestorage.com")
        by_path = by_path or (name.startswith(("s3.", "s3-")) and name.endswith(".amazonaws.com"))
        if by_path:
            bucket, _, key = key.partition("/")
            root = f"{root}/{bucket}"
    return root, key
