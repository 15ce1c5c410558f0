"""Every table feature of the Delta protocol, one row each: the facts that readers and writers decide by.

PROTOCOL "Table Features" and "Valid Feature Names in Table Features"; the features newer than the text are listed in
the protocol's own RFCs or exist in the reference implementations only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class FeatureKind(Enum):
    """Whether readers or only writers must know a feature."""

    READER_WRITER = "reader and writer"
    WRITER = "writer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFeature:
    """A feature by the protocol, and deltaberg's support for it.

    ``legacy_version`` is the pair of minReaderVersion and minWriterVersion that implies the feature without lists.
    ``enabled_by`` is the table property that switches it on when its value is ``true`` (None: on wherever it is
    supported, or by other means). ``refusal`` says why a table that needs it is refused; None: handled.
    """

    name: str
    kind: FeatureKind
    summary: str
    handling: str
    requires: tuple[str, ...] = ()
    legacy_version: tuple[int, int] | None = None
    enabled_by: str | None = None
    alias_of: str | None = None
    refusal: str | None = None

    @property
    def canonical_name(self) -> str:
        """The name without the preview suffix."""
        return self.alias_of or self.name


_RW, _W = FeatureKind.READER_WRITER, FeatureKind.WRITER
_PREVIEW = "the preview name of the feature; read and kept under this name"
_CATALOG = (
    "commits may exist that only its catalog knows, so reading the folder could miss some; "
    "read the table through its catalog or drop the feature"
)
_REDIRECT = "the table's data is elsewhere; read the table that the property delta.redirectReaderWriter-preview names"

FEATURES: tuple[TableFeature, ...] = (
    TableFeature(
        name="appendOnly",
        kind=_W,
        summary="rows may not be changed or removed",
        handling="commits that remove data are refused while delta.appendOnly is true",
        legacy_version=(1, 2),
        enabled_by="delta.appendOnly",
    ),
    TableFeature(
        name="invariants",
        kind=_W,
        summary="SQL conditions on a column that every row meets",
        handling="kept and reported; a commit that adds rows is refused unless its caller vouches for them",
        legacy_version=(1, 2),
    ),
    TableFeature(
        name="checkConstraints",
        kind=_W,
        summary="SQL conditions on rows, delta.constraints.*",
        handling="kept and reported; a commit that adds rows is refused unless its caller vouches for them",
        legacy_version=(1, 3),
    ),
    TableFeature(
        name="changeDataFeed",
        kind=_W,
        summary="row-level changes are recorded in files of their own",
        handling="change files are listed by history, data files read without the extra columns",
        legacy_version=(1, 4),
        enabled_by="delta.enableChangeDataFeed",
    ),
    TableFeature(
        name="generatedColumns",
        kind=_W,
        summary="columns computed from others",
        handling="values are read from files and log; the expression is kept and reported; a commit that adds rows is refused unless its caller vouches for them",
        legacy_version=(1, 4),
    ),
    TableFeature(
        name="columnMapping",
        kind=_RW,
        summary="columns are found in files by physical name or id",
        handling="modes none, name and id; nested ids",
        legacy_version=(2, 5),
    ),
    TableFeature(
        name="identityColumns",
        kind=_W,
        summary="columns with generated unique numbers",
        handling="values are read from files; the definition is kept and reported; a commit that adds rows is refused unless its caller vouches for them",
        legacy_version=(1, 6),
    ),
    TableFeature(
        name="allowColumnDefaults",
        kind=_W,
        summary="defaults that writers fill in",
        handling="kept; they never apply when reading",
    ),
    TableFeature(
        name="deletionVectors",
        kind=_RW,
        summary="rows deleted by position, without rewriting the file",
        handling="inline, relative and absolute vectors are applied, checked and written",
        enabled_by="delta.enableDeletionVectors",
    ),
    TableFeature(
        name="rowTracking",
        kind=_W,
        summary="stable row ids and row commit versions",
        handling="base ids, commit versions, materialised columns and the high-water mark are read and kept",
        requires=("domainMetadata",),
        enabled_by="delta.enableRowTracking",
    ),
    TableFeature(
        name="timestampNtz",
        kind=_RW,
        summary="the type timestamp without time zone",
        handling="read and written",
    ),
    TableFeature(
        name="domainMetadata",
        kind=_W,
        summary="named configurations in the log",
        handling="replayed, exposed and kept, understood or not",
    ),
    TableFeature(
        name="v2Checkpoint",
        kind=_RW,
        summary="checkpoints with unique names and sidecar files",
        handling="JSON and Parquet manifests with sidecars are read and written",
    ),
    TableFeature(
        name="icebergCompatV1",
        kind=_W,
        summary="writers keep the table convertible to Iceberg v1 and v2",
        handling="its rules are checked before every commit while it is active",
        requires=("columnMapping",),
        enabled_by="delta.enableIcebergCompatV1",
    ),
    TableFeature(
        name="icebergCompatV2",
        kind=_W,
        summary="writers keep the table convertible to Iceberg v2, nested fields included",
        handling="its rules are checked before every commit while it is active",
        requires=("columnMapping",),
        enabled_by="delta.enableIcebergCompatV2",
    ),
    TableFeature(
        name="icebergCompatV3",
        kind=_W,
        summary="writers keep the table convertible to Iceberg v3",
        handling="its rules are checked before every commit while it is active",
        requires=("columnMapping", "rowTracking"),
        enabled_by="delta.enableIcebergCompatV3",
    ),
    TableFeature(
        name="clustering",
        kind=_W,
        summary="rows are clustered by columns that a metadata domain names",
        handling="clustering columns are read and kept",
        requires=("domainMetadata",),
    ),
    TableFeature(
        name="vacuumProtocolCheck",
        kind=_RW,
        summary="VACUUM must check the writer protocol",
        handling="nothing to do for readers and for writers without VACUUM",
    ),
    TableFeature(
        name="typeWidening",
        kind=_RW,
        summary="column types may become wider without rewriting files",
        handling="files with narrower types are read as the current type; changes are checked against the list",
        enabled_by="delta.enableTypeWidening",
    ),
    TableFeature(
        name="typeWidening-preview",
        kind=_RW,
        summary="preview of typeWidening",
        handling=_PREVIEW,
        enabled_by="delta.enableTypeWidening",
        alias_of="typeWidening",
    ),
    TableFeature(
        name="variantType",
        kind=_RW,
        summary="the type variant",
        handling="read and kept",
    ),
    TableFeature(
        name="variantType-preview",
        kind=_RW,
        summary="preview of variantType",
        handling=_PREVIEW,
        alias_of="variantType",
    ),
    TableFeature(
        name="variantShredding",
        kind=_RW,
        summary="parts of variants stored in typed columns",
        handling="shredded and unshredded values are read",
        requires=("variantType",),
        enabled_by="delta.enableVariantShredding",
    ),
    TableFeature(
        name="variantShredding-preview",
        kind=_RW,
        summary="preview of variantShredding",
        handling=_PREVIEW,
        # Engines list it beside variantType-preview, too.
        enabled_by="delta.enableVariantShredding",
        alias_of="variantShredding",
    ),
    TableFeature(
        name="inCommitTimestamp",
        kind=_W,
        summary="every commit carries its own, increasing timestamp",
        handling="used for time travel and history where enabled; kept increasing when writing",
        enabled_by="delta.enableInCommitTimestamps",
    ),
    TableFeature(
        name="inCommitTimestamp-preview",
        kind=_W,
        summary="preview of inCommitTimestamp",
        handling=_PREVIEW,
        enabled_by="delta.enableInCommitTimestamps-preview",
        alias_of="inCommitTimestamp",
    ),
    TableFeature(
        name="checkpointProtection",
        kind=_W,
        summary="history before a version may only be cleaned up by writers that know its features",
        handling="deltaberg never cleans up a log",
    ),
    TableFeature(
        name="materializePartitionColumns",
        kind=_W,
        summary="partition columns are written into data files, too",
        handling="the log's value is read; the columns in the files are ignored",
    ),
    TableFeature(
        name="materializePartitionColumns-preview",
        kind=_W,
        summary="preview of materializePartitionColumns",
        handling=_PREVIEW,
        alias_of="materializePartitionColumns",
    ),
    TableFeature(
        name="collations",
        kind=_W,
        summary="strings compare by collation",
        handling="kept and reported; bounds are of the plain byte order",
        requires=("domainMetadata",),
    ),
    TableFeature(
        name="collations-preview",
        kind=_W,
        summary="preview of collations",
        handling=_PREVIEW,
        alias_of="collations",
    ),
    TableFeature(
        name="columnMappingUsageTracking",
        kind=_W,
        summary="records whether a column was ever dropped or renamed",
        handling="the property is kept",
        requires=("columnMapping",),
    ),
    TableFeature(
        name="icebergWriterCompatV1",
        kind=_W,
        summary="Iceberg engines can write the table, too",
        handling="read; commits to such a table are refused",
        requires=("icebergCompatV2",),
        enabled_by="delta.enableIcebergWriterCompatV1",
    ),
    TableFeature(
        name="icebergWriterCompatV3",
        kind=_W,
        summary="Iceberg v3 engines can write the table, too",
        handling="read; commits to such a table are refused",
        requires=("icebergCompatV3",),
        enabled_by="delta.enableIcebergWriterCompatV3",
    ),
    TableFeature(
        name="geospatial",
        kind=_RW,
        summary="the types geometry and geography",
        handling="read as WKB and kept",
    ),
    TableFeature(
        name="geospatial-dev",
        kind=_RW,
        summary="development name of geospatial",
        handling=_PREVIEW,
        alias_of="geospatial",
    ),
    TableFeature(
        name="catalogManaged",
        kind=_RW,
        summary="a catalog ratifies every commit",
        handling="refused by path",
        requires=("inCommitTimestamp",),
        refusal=_CATALOG,
    ),
    TableFeature(
        name="catalogManaged-preview",
        kind=_RW,
        summary="preview of catalogManaged",
        handling="refused by path",
        alias_of="catalogManaged",
        refusal=_CATALOG,
    ),
    TableFeature(
        name="catalogOwned-preview",
        kind=_RW,
        summary="former name of catalogManaged",
        handling="refused by path",
        alias_of="catalogManaged",
        refusal=_CATALOG,
    ),
    TableFeature(
        name="catalogOwned",
        kind=_RW,
        summary="former name of catalogManaged",
        handling="refused by path",
        alias_of="catalogManaged",
        refusal=_CATALOG,
    ),
    TableFeature(
        name="coordinatedCommits-preview",
        kind=_W,
        summary="an external service ratifies every commit (rejected forerunner of catalogManaged)",
        handling="refused by path",
        requires=("inCommitTimestamp", "vacuumProtocolCheck"),
        refusal=_CATALOG,
    ),
    TableFeature(
        name="redirectReaderWriter-preview",
        kind=_RW,
        summary="reads and writes go to another table",
        handling="refused",
        refusal=_REDIRECT,
    ),
    TableFeature(
        name="redirectWriterOnly-preview",
        kind=_W,
        summary="writes go to another table",
        handling="read; commits to such a table are refused",
    ),
    TableFeature(
        name="adaptiveMetadata",
        kind=_RW,
        summary="the state of the table is a tree of manifests as in Iceberg v4",
        handling="refused",
        refusal="its metadata tree is a draft without a released reader",
    ),
    TableFeature(
        name="adaptiveMetadata-preview",
        kind=_RW,
        summary="preview of adaptiveMetadata",
        handling="refused",
        alias_of="adaptiveMetadata",
        refusal="its metadata tree is a draft without a released reader",
    ),
    TableFeature(
        name="timestampNanos",
        kind=_RW,
        summary="timestamp types in nanoseconds",
        handling="refused",
        requires=("timestampNtz",),
        refusal="its types are a draft without a released writer",
    ),
)

FEATURE_BY_NAME: Mapping[str, TableFeature] = {feature.name: feature for feature in FEATURES}


def legacy_features(reader_version: int, writer_version: int) -> tuple[TableFeature, ...]:
    """The features that a pair of versions implies without lists. PROTOCOL "Writer Version Requirements"."""
    return tuple(
        feature
        for feature in FEATURES
        if feature.legacy_version is not None
        and (
            feature.legacy_version[1] <= writer_version <= 6
            or (feature.kind is FeatureKind.READER_WRITER and feature.legacy_version[0] <= reader_version <= 2)
        )
        and (feature.kind is FeatureKind.WRITER or feature.legacy_version[0] <= reader_version)
    )
