"""The table properties that steer writing, with the defaults of the reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltaberg.iceberg.errors import InvalidIcebergRequest, UnsupportedIcebergFeature

COMMIT_RETRIES: Final = "commit.retry.num-retries"
COMMIT_MIN_WAIT_MS: Final = "commit.retry.min-wait-ms"
COMMIT_MAX_WAIT_MS: Final = "commit.retry.max-wait-ms"
MANIFEST_TARGET_SIZE: Final = "commit.manifest.target-size-bytes"
MANIFEST_MERGE_ENABLED: Final = "commit.manifest-merge.enabled"
MANIFEST_MIN_COUNT: Final = "commit.manifest.min-count-to-merge"
MANIFEST_CODEC: Final = "write.manifest.compression-codec"
METADATA_CODEC: Final = "write.metadata.compression-codec"
METADATA_PATH: Final = "write.metadata.path"
METADATA_VERSIONS_MAX: Final = "write.metadata.previous-versions-max"
METADATA_DELETE_OLD: Final = "write.metadata.delete-after-commit.enabled"
GC_ENABLED: Final = "gc.enabled"

_CODECS: Final = {
    "gzip": "deflate",
    "zlib": "deflate",
    "uncompressed": "null",
    "none": "null",
    "zstd": "zstandard",
}
_MAX_INT: Final = 2**31 - 1


def int_property(properties: Mapping[str, str], key: str, default: int, *, low: int = 0) -> int:
    """A whole-number property. Raises InvalidIcebergRequest when it is none or below ``low``."""
    text = properties.get(key)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise InvalidIcebergRequest(f"Cannot use property {key}={text}: expected a whole number") from error
    if not low <= value <= 2**63 - 1:
        raise InvalidIcebergRequest(f"Cannot use property {key}={text}: expected at least {low}")
    return value


def bool_property(properties: Mapping[str, str], key: str, *, default: bool) -> bool:
    """A true-or-false property; anything but ``true`` in any case is false, as in the reference implementation."""
    text = properties.get(key)
    return default if text is None else text.strip().lower() == "true"


def metadata_versions_kept(properties: Mapping[str, str]) -> int:
    """How many former metadata files the metadata log keeps."""
    return min(_MAX_INT, max(1, int_property(properties, METADATA_VERSIONS_MAX, 100)))


def metadata_is_gzipped(properties: Mapping[str, str]) -> bool:
    """True when metadata files are to be gzipped. Raises InvalidIcebergRequest for a codec that is none."""
    codec = properties.get(METADATA_CODEC, "none").lower()
    if codec not in ("none", "gzip"):
        raise InvalidIcebergRequest(f"Cannot use property {METADATA_CODEC}={codec}: expected none or gzip")
    return codec == "gzip"


def manifest_codec(properties: Mapping[str, str]) -> str:
    """The Avro codec of manifests and manifest lists; gzip, the reference implementation's name, is deflate."""
    name = properties.get(MANIFEST_CODEC, "gzip").lower()
    codec = _CODECS.get(name, name)
    if codec not in ("null", "deflate", "zstandard", "snappy"):
        raise UnsupportedIcebergFeature(
            f"Cannot write manifests with {MANIFEST_CODEC}={name}: expected gzip, zstd, snappy or uncompressed",
            feature=f"codec {name}",
        )
    return codec
