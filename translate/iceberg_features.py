"""The features of each Iceberg format version, and their equivalents in a Delta table: the rows of docs/features.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergFeature:
    """version: the first format version that has it. in_delta: the Delta feature or property that carries it."""

    name: str
    version: int
    in_delta: str


ICEBERG_FEATURES: Final[tuple[IcebergFeature, ...]] = (
    IcebergFeature(name="field ids", version=1, in_delta="`columnMapping`, mode id or name"),
    IcebergFeature(name="hidden partitioning", version=1, in_delta="partition columns for identity, see transforms.md"),
    IcebergFeature(name="type promotion", version=1, in_delta="`typeWidening`"),
    IcebergFeature(name="name mapping", version=1, in_delta="`columnMapping`, mode name"),
    IcebergFeature(name="sort orders", version=1, in_delta="recorded in a property"),
    IcebergFeature(name="identifier fields", version=1, in_delta="recorded in a property"),
    IcebergFeature(name="branches and tags", version=1, in_delta="recorded in a property; --ref converts one"),
    IcebergFeature(name="position deletes", version=2, in_delta="`deletionVectors`"),
    IcebergFeature(name="equality deletes", version=2, in_delta="`deletionVectors`"),
    IcebergFeature(name="deletion vectors", version=3, in_delta="`deletionVectors`"),
    IcebergFeature(name="row lineage", version=3, in_delta="`rowTracking`"),
    IcebergFeature(name="write defaults", version=3, in_delta="`allowColumnDefaults`"),
    IcebergFeature(name="initial defaults", version=3, in_delta="files without the column are rewritten"),
    IcebergFeature(name="variant", version=3, in_delta="`variantType`"),
    IcebergFeature(name="geometry and geography", version=3, in_delta="`geospatial`"),
    IcebergFeature(name="timestamps with nanoseconds", version=3, in_delta="refused, or cut as --map says"),
    IcebergFeature(name="unknown", version=3, in_delta="void"),
)
