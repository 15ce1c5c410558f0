"""Codes for a single reader that handles a source or target differently from the others."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)

MAP_GROUP_NAMES: Final = Code(
    name="map-group-names",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Files without field ids hold maps whose entries are in a group that is not called `key_value`. DuckDB's "
    "iceberg_scan stops at `entries`; Spark, PyIceberg and Polars find the keys and values.",
    remedy="Nothing to do for other readers; --strict rewrites these files.",
    example="maps that delta-rs wrote: their group is called `entries`",
    strict=Severity.REWRITE,
)
EQUALITY_DELETES_NESTED: Final = Code(
    name="equality-deletes-nested",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Equality deletes compare a field of a struct that may be null. By the specification the field of a null "
    "struct is null, and a key of null deletes the row, in the target, too. Spark's Iceberg connector (1.12) tells a "
    "null struct from one that holds a null, and keeps the row.",
    remedy="Nothing to do if the specification's rows are wanted; if Spark's are, have Spark compact the source first "
    "(rewrite_data_files).",
    example="equality deletes on `place.town`, and rows whose `place` is null",
)
