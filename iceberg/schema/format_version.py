"""The rules of each format version (Appendix E): types, defaults, and upgrades."""

from __future__ import annotations

from typing import Final

from deltaberg.iceberg.errors import InvalidIcebergRequest
from deltaberg.iceberg.metadata.location import has_scheme
from deltaberg.iceberg.schema.schema import Schema
from deltaberg.iceberg.schema.types import type_name

V4_PREVIEW: Final = "4-preview"
"""How a caller asks for version 4, which is not adopted and may change."""

_DEFAULTS_SINCE: Final = 3


def requested_version(version: int | str) -> int:
    """The version a caller asks for: 1, 2, 3 or ``4-preview``. Raises InvalidIcebergRequest."""
    if version == V4_PREVIEW:
        return 4
    if isinstance(version, str) and version.isdecimal():
        version = int(version)
    if version == 4:
        raise InvalidIcebergRequest(
            f"Cannot write format version 4: it is not adopted yet; ask for {V4_PREVIEW} to write it all the same"
        )
    if isinstance(version, str) or version not in (1, 2, 3):
        raise InvalidIcebergRequest(f"Cannot write format version {version}: expected 1, 2, 3 or {V4_PREVIEW}")
    return version


def check_schema_version(schema: Schema, version: int) -> None:
    """Raise InvalidIcebergRequest when a schema needs a later version than the table's."""
    for nested in schema.all_fields():
        name = schema.full_name(nested.field_id)
        if nested.type.min_version > version:
            raise InvalidIcebergRequest(
                f"Cannot use column {name}: type {type_name(nested.type)} needs format version "
                f"{nested.type.min_version}, the table has {version}"
            )
        if version < _DEFAULTS_SINCE and nested.initial_default is not None:
            raise InvalidIcebergRequest(
                f"Cannot use column {name}: its initial default needs format version {_DEFAULTS_SINCE}, "
                f"the table has {version}"
            )


def check_upgrade(current: int, wanted: int, location: str) -> None:
    """Raise InvalidIcebergRequest for a downgrade, and for version 4 of a table whose location has no scheme."""
    if wanted < current:
        raise InvalidIcebergRequest(f"Cannot change format version {current} to {wanted}: there is no way down")
    if wanted not in (1, 2, 3, 4):
        raise InvalidIcebergRequest(
            f"Cannot change format version {current} to {wanted}: expected 2, 3 or {V4_PREVIEW}"
        )
    if wanted >= 4 and not has_scheme(location):
        raise InvalidIcebergRequest(
            f"Cannot change format version {current} to {wanted}: version 4 reads the table's location {location} as "
            "relative, it needs a scheme such as file:"
        )
