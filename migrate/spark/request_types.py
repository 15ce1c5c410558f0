"""The types of what a caller with a session says of one table; each function checks its arguments with them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from deltaberg.migrate.engine import Progress
from deltaberg.translate.options import ConvertOptions

REQUEST_TYPES: Final[Mapping[str, Any]] = {
    "name": str,
    "source": str | os.PathLike[str],
    "to": Literal["iceberg", "delta"],
    "target": str | os.PathLike[str] | None,
    "options": ConvertOptions | None,
    "verify": Literal["none", "metadata", "rows"],
    "rows": bool,
    "bounds": bool,
    "version": int | None,
    "snapshot_id": int | None,
    "ref": str | None,
    "as_of_ms": int | None,
    "relocate": Mapping[str, str] | None,
    "storage_options": Mapping[str, str] | None,
    "allow_locations": Iterable[str] | None,
    "progress": Progress | None,
}
