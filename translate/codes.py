"""Every code that ``plan`` can give, as data: docs/codes.md is generated from this table."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity
from deltaberg.translate.reader_codes import READER_CODES
from deltaberg.translate.source_codes import SOURCE_CODES

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)
_BOTH: Final = ("iceberg", "delta")

# Schema

TYPE_WIDENED: Final = Code(
    name="type-widened",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Iceberg has no byte and short; the values are carried as int.",
    remedy="Nothing to do; writers of the Iceberg table are not held to the narrower range.",
    example="a Delta column `age byte`",
)
TYPE_NOT_IN_ICEBERG: Final = Code(
    name="type-not-in-iceberg",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="Iceberg has no such type.",
    remedy="Drop the column or rewrite it with another type in the source.",
    example="a Delta column `t interval day to second`",
)
TYPE_NEEDS_VERSION_3: Final = Code(
    name="type-needs-version-3",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="The type exists from Iceberg format version 3 on, and a lower version was asked for.",
    remedy="Leave --format-version out or set it to 3.",
    example="a Delta column `v variant` with --format-version 2",
)
FORMAT_VERSION: Final = Code(
    name="format-version-chosen",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The lowest Iceberg format version that carries everything was taken.",
    remedy="Set --format-version for another one.",
    example="a Delta table with deletion vectors: version 3",
)
VOID_DROPPED: Final = Code(
    name="void-column-left-out",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="A void column holds only nulls; below format version 3 Iceberg has no type for it.",
    remedy="Set --format-version 3 to keep it as unknown.",
    example="a Delta column `n void` with --format-version 2",
    strict=Severity.REFUSE,
)
COLLATION: Final = Code(
    name="collation-not-carried",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Iceberg compares strings by their bytes; the collation is recorded in a property only.",
    remedy="Use explicit collations in queries of the Iceberg table.",
    example="a Delta column `s string collate UNICODE_CI`",
    strict=Severity.REFUSE,
)
CHAR_LENGTH: Final = Code(
    name="char-length-recorded",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="char and varchar are strings with a rule of length; Iceberg has the strings only.",
    remedy="Keep writing through the Delta table, or enforce the length elsewhere.",
    example="a Delta column `c varchar(5)`",
)
CHAR_PADDING: Final = Code(
    name="char-padding",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="Delta's readers pad char(n) columns with spaces when they read them; the files hold them without.",
    remedy="Nothing to do; files that hold the column are written anew, padded.",
    example="a Delta column `c char(5)`",
)
RULE_NOT_ENFORCED: Final = Code(
    name="rule-not-enforced",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The rule governs writers of the Delta table; Iceberg cannot enforce it. It is recorded in properties.",
    remedy="Keep writing through the Delta table, or enforce the rule elsewhere.",
    example="a CHECK constraint, a generated or identity column, `delta.appendOnly`",
)
DEFAULT_NOT_LITERAL: Final = Code(
    name="default-not-literal",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="A default for writers that the other format cannot express; rows are not affected.",
    remedy="It is recorded in the column's properties; replace it by a literal to have it carried.",
    example="`CURRENT_DEFAULT` = `current_timestamp()`",
)
DEFAULT_NEEDS_VERSION_3: Final = Code(
    name="default-needs-version-3",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Column defaults exist from Iceberg format version 3 on; the rows are not affected.",
    remedy="Leave --format-version out or set it to 3.",
    example="a Delta column with a default and --format-version 2",
)
NAME_MAPPING: Final = Code(
    name="read-by-name-mapping",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The data files carry no field ids; `schema.name-mapping.default` gives their columns ids by name.",
    remedy="Nothing to do; files that are written later carry ids.",
    example="a Delta table without column mapping",
)
TYPE_NOT_IN_DELTA: Final = Code(
    name="type-not-in-delta",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="Delta has no such type, and Delta readers cannot read its physical form.",
    remedy="Choose a mapping (--map uuid=string, time=long, fixed=binary, timestamp_ns=timestamp_ntz); "
    "files that hold the column are then rewritten.",
    example="an Iceberg column `id uuid`",
)
TYPE_MAPPED: Final = Code(
    name="type-mapped",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="The column gets another type, as asked for; files that hold it are rewritten.",
    remedy="Nothing to do.",
    example="an Iceberg column `id uuid` with --map uuid=string",
)
NAMES_BY_CASE: Final = Code(
    name="names-differ-by-case",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="Delta's column names must be unique regardless of case.",
    remedy="Rename one of the columns in the source.",
    example="an Iceberg table with columns `a` and `A`",
)
NAMES_BY_PATH: Final = Code(
    name="names-collide-by-path",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="Two fields have the same dotted name, and Iceberg's own library opens no table with such a schema.",
    remedy="Rename one of them in the source.",
    example="a Delta table with a column `a.b` and a column `a struct<b: int>`",
)
COLUMN_MAPPING: Final = Code(
    name="column-mapping-chosen",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The mode by which Delta readers find the columns in the shared files.",
    remedy="Set --column-mapping for another one; a Delta table cannot go from none or name to id later.",
    example="mode id: the files carry Iceberg's field ids",
)
COLUMN_MAPPING_IMPOSSIBLE: Final = Code(
    name="column-mapping-impossible",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="With the column mapping mode asked for, readers would not find the column in the files.",
    remedy="Leave --column-mapping out.",
    example="--column-mapping none and a column that was renamed",
)
FORMER_NAMES: Final = Code(
    name="former-names",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="Files hold the column under another name than most do, or another column under its name. Mode id finds it by "
    "the protocol, yet readers that go by physical name (DuckDB, delta-rs, DataFusion) give null or the other column's "
    "values, without an error.",
    remedy="Choose --former-names rewrite (those files are written anew) or --former-names trust-ids (all readers "
    "of the target match by field id, as Spark does).",
    example="an Iceberg column that was renamed, or dropped and added again, and written to before and after",
)
FIELD_IDS_ABSENT: Final = Code(
    name="field-ids-absent",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Files carry no field ids; column mapping mode name finds their columns.",
    remedy="Nothing to do.",
    example="an Iceberg table made by importing Parquet files",
)
FIELD_IDS_UNMAPPED: Final = Code(
    name="field-ids-unmapped",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="Files carry no field ids and the table has no name mapping. The Iceberg specification gives no column a "
    "value from such files, and its readers disagree: some stop, some go by position.",
    remedy="Set schema.name-mapping.default on the source to say by which names its columns are found.",
    example="an Iceberg table that an old Hive made of Parquet files",
)
FIELD_IDS_DISAGREE: Final = Code(
    name="field-ids-disagree",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="The files carry no field ids and name the columns otherwise than the rest of the table.",
    remedy="Nothing to do; these files are written anew.",
    example="imported files whose names the name mapping translates",
)
INITIAL_DEFAULT: Final = Code(
    name="initial-default",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="Rows of files without the column read as its default; Delta reads such rows as null.",
    remedy="Nothing to do; these files are written anew with the value.",
    example="an Iceberg v3 column added with default 7",
)
TYPE_PROMOTED: Final = Code(
    name="type-promoted",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Files still hold the column's narrower type; feature typeWidening lets readers widen it.",
    remedy="Nothing to do; readers without typeWidening need those files rewritten.",
    example="an Iceberg column promoted from int to long",
)
NARROW_TYPE: Final = Code(
    name="narrow-type",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="Files hold a narrower type that readers of the target cannot widen to the column's type.",
    remedy="Nothing to do; these files are written anew.",
    example="a Delta column widened from int to double",
)
NESTED_IDS_MISSING: Final = Code(
    name="nested-ids-missing",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The files carry field ids, but none on list elements and map keys and values; Iceberg readers then "
    "cannot read those columns.",
    remedy="Nothing to do; these files are written anew. Delta writes complete ids under icebergCompatV2 and V3.",
    example="a Delta table with column mapping and an array column",
)
FIELD_IDS_FOREIGN: Final = Code(
    name="field-ids-foreign",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The files carry field ids that are not the table's; Iceberg readers would read the wrong columns.",
    remedy="Nothing to do; these files are written anew.",
    example="a Delta table without column mapping over files that an Iceberg writer made",
)

# Data files

DATA_FILE_FORMAT: Final = Code(
    name="data-file-format",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="Delta's data files are Parquet.",
    remedy="Nothing to do; these files are rewritten to Parquet.",
    example="an Iceberg table with ORC or Avro files",
)
INT96: Final = Code(
    name="int96-timestamps",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="Timestamps are stored as INT96, which Iceberg's specification does not list and Delta's knows from Spark; "
    "Spark, DuckDB, PyIceberg and delta-rs read these values right.",
    remedy="--strict rewrites these files; set spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS for new ones.",
    example="nearly every Delta table that open-source Spark wrote",
    strict=Severity.REWRITE,
)
INT96_OUT_OF_RANGE: Final = Code(
    name="int96-out-of-range",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="Timestamps stored as INT96 outside the years 1677 to 2262, which readers that pass through nanoseconds "
    "(PyIceberg, delta-rs) get wrong, or statistics do not say that there are none.",
    remedy="Nothing to do; these files are written anew.",
    example="an INT96 file with a timestamp of the year 9999",
)
TWO_LEVEL_LISTS: Final = Code(
    name="two-level-lists",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="Lists are stored in Parquet's legacy two-level form, which Iceberg readers read wrongly or not at all.",
    remedy="Nothing to do; these files are written anew.",
    example="a Delta file written with spark.sql.parquet.writeLegacyFormat=true",
)
LEGACY_CALENDAR: Final = Code(
    name="legacy-calendar",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="Dates or timestamps are stored in the hybrid Julian calendar; only Spark rebases them.",
    remedy="Nothing to do; these files are written anew.",
    example="a file with the key org.apache.spark.legacyDateTime and a date before 1582-10-15",
)
PHYSICAL_TYPE_FOREIGN: Final = Code(
    name="physical-type-foreign",
    severity=Severity.REWRITE,
    to=_BOTH,
    reason="A column is stored in a physical form that readers of the target format do not accept for its type.",
    remedy="Nothing to do; these files are written anew.",
    example="a decimal stored as variable-length binary",
)
PARTITION_VALUE_DIFFERS: Final = Code(
    name="partition-value-differs",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The files hold the partition column with other values than the log states; in Delta the log's value "
    "counts, in Iceberg the file's.",
    remedy="Nothing to do; these files are written anew.",
    example="an empty string, which a Delta log states as null",
)
PARTITION_DOUBLE: Final = Code(
    name="partition-double",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The value of a double partition column would be read from Iceberg's metadata, and PyIceberg reads it there "
    "in single precision.",
    remedy="Nothing to do; these files are written anew with the column.",
    example="a Delta table partitioned by a double column with the value 0.1",
)
COLUMN_NOT_IN_FILE: Final = Code(
    name="partition-column-not-in-file",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="The files lack an identity partition column that is no partition column of the target; its value stands "
    "in Iceberg's metadata only.",
    remedy="Nothing to do; these files are written anew with the column.",
    example="Hive files imported under a partition spec that evolved later",
)
REWRITE_ELSEWHERE: Final = Code(
    name="rewrite-elsewhere",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The files that have to be rewritten are more than one machine should do unasked.",
    remedy="Run it on a cluster with --engine spark, or rewrite them here with --engine local.",
    example="two terabytes of ORC files",
)
FILE_UNREADABLE: Final = Code(
    name="file-unreadable",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="A data or delete file that the source lists is not there or is damaged; what it holds is lost to any target.",
    remedy="Restore the file or take it out of the source (Delta: FSCK REPAIR TABLE; Iceberg: delete it from the table), or "
    "choose a version that does not list it. --deep looks at every file.",
    example="a Delta table after a VACUUM that was too short, a table that was copied without all of its files",
)
ROW_COUNT_DIFFERS: Final = Code(
    name="row-count-differs",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The metadata states another number of rows for a file than the file has. Engines answer COUNT(*) from that "
    "number, and row ids and deletes rest on it.",
    remedy="Have the source's engine write the file anew (OPTIMIZE, rewrite_data_files). --deep looks at every file; otherwise "
    "the first files of a table, those that may be imported, and some of every writer and commit are compared.",
    example="a Delta log whose numRecords is 10 for a file of 5 rows",
)
STATISTICS_FROM_FOOTERS: Final = Code(
    name="row-counts-from-footers",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The log has no row count for these files; it is read from their footers.",
    remedy="Nothing to do.",
    example="a Delta table without statistics",
)

# Partitioning

PARTITION_TIMEZONE: Final = Code(
    name="partition-timezone",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Timestamp partition values are stated in local time without a zone; each reader takes its own.",
    remedy="Set --partition-timezone to the zone of the writer.",
    example="a Delta table written with utcTimestampPartitionValues=false",
    strict=Severity.REFUSE,
)
PARTITION_FIELD_KEPT: Final = Code(
    name="partition-field-not-carried",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The field does not partition the Delta table; its column stays an ordinary one and statistics still "
    "skip files.",
    remedy="Nothing to do; --derive-partition-columns adds generated columns for time and truncate transforms.",
    example="bucket(16, id), day(ts), an identity field with empty strings",
)
OTHER_BUCKET: Final = Code(
    name="files-in-another-bucket",
    severity=Severity.WARNING,
    to=_DELTA,
    reason="The files are in another bucket or store than the Delta table, whose log can name them only by absolute paths. "
    "Spark reads these; delta-rs and DuckDB stop.",
    remedy="Choose a --target in the bucket of the data files, or read the Delta table with Spark.",
    example="an Iceberg table in s3://lake, converted with --target s3://other/t",
    strict=Severity.REFUSE,
)
PARTITION_NAMES_MAPPED: Final = Code(
    name="partition-names-mapped",
    severity=Severity.WARNING,
    to=_DELTA,
    reason="The table came from a Delta table with column mapping and gets its partition columns back, under the physical "
    "names of then; DuckDB reads the partition columns of any such table as null.",
    remedy="Read the target with Spark, delta-rs or deltaberg, as its origin had to be.",
    example="a column-mapped Delta table that was converted to Iceberg and back",
)
PARTITION_DERIVED: Final = Code(
    name="partition-column-derived",
    severity=Severity.INFO,
    to=_DELTA,
    reason="A generated column with the transform's values partitions the Delta table, as asked for.",
    remedy="Nothing to do.",
    example="day(ts) with --derive-partition-columns: column ts_day",
)
PARTITION_EVOLUTION: Final = Code(
    name="partition-evolution",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Live files were written under several partition specs; Delta has one set of partition columns, so the "
    "identity fields that all of them share are taken.",
    remedy="Nothing to do.",
    example="a table that went from months(ts) to days(ts)",
)

ICEBERG_COMPAT: Final = Code(
    name="iceberg-compat-declared",
    severity=Severity.INFO,
    to=_DELTA,
    reason="The Delta table declares Iceberg compatibility, as asked for, and keeps its rules.",
    remedy="Nothing to do; writers of the Delta table are held to the rules from now on.",
    example="--iceberg-compat v2",
)
ICEBERG_COMPAT_IMPOSSIBLE: Final = Code(
    name="iceberg-compat-impossible",
    severity=Severity.REFUSE,
    to=_DELTA,
    reason="The Delta table would break a rule of the Iceberg compatibility version that was asked for.",
    remedy="Leave --iceberg-compat out or choose another version: v1 and v2 need a source without deletes (compact it "
    "first), v1 one without lists and maps, v3 one with row lineage (format version 3).",
    example="--iceberg-compat v2 and an Iceberg table with deletion vectors",
)

# Deletes

DELETION_VECTORS: Final = Code(
    name="deletion-vectors-copied",
    severity=Severity.INFO,
    to=_BOTH,
    reason="The bytes of the deletion vectors are the same in both formats; they are copied into the other container.",
    remedy="Nothing to do.",
    example="a Delta table after DELETE with deletion vectors on",
)
DELETION_VECTORS_TO_POSITIONS: Final = Code(
    name="deletion-vectors-to-position-deletes",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Format version 2 has no deletion vectors; the positions are written as position delete files.",
    remedy="Set --format-version 3 to have the vectors copied.",
    example="a Delta table with deletion vectors and --format-version 2",
)
DELETES_NEED_VERSION_2: Final = Code(
    name="deletes-need-version-2",
    severity=Severity.REFUSE,
    to=_ICEBERG,
    reason="Iceberg format version 1 has no deletes of rows.",
    remedy="Leave --format-version out, set it to 2 or 3, or run OPTIMIZE / REORG PURGE on the source.",
    example="a Delta table with deletion vectors and --format-version 1",
)
POSITION_DELETES: Final = Code(
    name="position-deletes-merged",
    severity=Severity.INFO,
    to=_DELTA,
    reason="All position deletes of a data file are merged into one deletion vector.",
    remedy="Nothing to do.",
    example="an Iceberg v2 table after merge-on-read deletes",
)
EQUALITY_DELETES: Final = Code(
    name="equality-deletes-resolved",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Equality deletes are resolved to deletion vectors by reading the key columns; no data file is rewritten.",
    remedy="Nothing to do.",
    example="an Iceberg table that Flink upserts into",
)

# Lineage, history, properties

LINEAGE: Final = Code(
    name="lineage-carried",
    severity=Severity.INFO,
    to=_BOTH,
    reason="Row ids and the versions of rows' last change are the same on both sides.",
    remedy="Nothing to do.",
    example="a Delta table with row tracking, an Iceberg v3 table",
)
SYNC_SCHEMA: Final = Code(
    name="change-not-followed",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The source has changed in a way that this target cannot follow, since its earlier states would read differently.",
    remedy="Convert to another target with --target, or bring this one up to date at once with --on-drift resync.",
    example="CREATE OR REPLACE TABLE with a column of the same name and another type",
)
LINEAGE_NOT_CARRIED: Final = Code(
    name="lineage-not-carried",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="Row ids of the source cannot be stated in the target; rows get new ones.",
    remedy="Do not join the two sides by row id.",
    example="row tracking that is supported but not enabled; --format-version 2",
)
LINEAGE_MATERIALIZED: Final = Code(
    name="lineage-not-in-file",
    severity=Severity.WARNING,
    to=_ICEBERG,
    reason="Files hold row ids in a column that Iceberg readers cannot recognise (it lacks Iceberg's reserved field "
    "id), so rows of these files get new ids.",
    remedy="--strict rewrites these files; icebergCompatV3 in the source makes new files carry the ids.",
    example="a Delta table with row tracking after MERGE",
    strict=Severity.REWRITE,
)
HISTORY_TRUNCATED: Final = Code(
    name="history-truncated",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="Older versions are left out: their files or log entries are gone, or the history of one target cannot follow a change "
    "that came after them. It starts at the first version behind that.",
    remedy="Nothing to do; an older version that is still there can be converted alone (--version, --snapshot-id) to another --target.",
    example="a Delta table whose log was cleaned up or that was replaced with other partition columns, an Iceberg table after "
    "expire_snapshots",
)
REFS: Final = Code(
    name="refs-recorded",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Delta has no branches and tags; they are recorded in a property.",
    remedy="Convert one with --ref.",
    example="an Iceberg table with a tag `release`",
)
SORT_ORDER: Final = Code(
    name="sort-order-recorded",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Delta has no sort order; it is recorded in a property.",
    remedy="Nothing to do.",
    example="an Iceberg table with WRITE ORDERED BY",
)
CLUSTERING: Final = Code(
    name="clustering-recorded",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Iceberg has no clustering columns; they are recorded in a property.",
    remedy="Nothing to do.",
    example="a Delta table with CLUSTER BY",
)
SHREDDED_VARIANTS: Final = Code(
    name="shredded-variants",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="Variants may be stored shredded, and the vectorized reader of Iceberg 1.12 stops on such files; the target switches it "
    "off by `read.parquet.vectorization.enabled`.",
    remedy="Set the property to true for readers that can; rows read more slowly without it.",
    example="a Delta table with delta.enableVariantShredding",
)
TRANSACTIONS: Final = Code(
    name="transactions-recorded",
    severity=Severity.INFO,
    to=_ICEBERG,
    reason="The log says how far streams and other applications have written (`txn`); Iceberg has no place for it, so it is "
    "recorded in a property.",
    remedy="Before a stream writes to the target, make sure that it does not begin with rows that the source already has.",
    example="a Delta table that Structured Streaming fills",
)
IDENTIFIER_FIELDS: Final = Code(
    name="identifier-fields-recorded",
    severity=Severity.INFO,
    to=_DELTA,
    reason="Delta has no identifier fields; they are recorded in a property.",
    remedy="Nothing to do.",
    example="an Iceberg table with SET IDENTIFIER FIELDS",
)
SECRET_PROPERTY: Final = Code(
    name="secret-property-left-out",
    severity=Severity.WARNING,
    to=_BOTH,
    reason="A property looks like a secret and is not copied into the target's metadata.",
    remedy="Set it on the target if it is needed there.",
    example="a property `s3.secret-access-key`",
)
NO_COLUMNS: Final = Code(
    name="no-columns",
    severity=Severity.REFUSE,
    to=_BOTH,
    reason="The table has no columns that the target can hold.",
    remedy="Add a column to the source.",
    example="a Delta table with an empty schema",
)

# What a conversion itself has to say, after its commit

CHECKPOINT_NOT_WRITTEN: Final = Code(
    name="checkpoint-not-written",
    severity=Severity.WARNING,
    to=_DELTA,
    reason="The Delta version is committed and whole, but its checkpoint could not be written, so readers parse the commit's "
    "JSON. Told by convert under `warnings`, never by plan.",
    remedy="Nothing has to be done: the next writer makes one. Find out why the store refused the file, and checkpoint the "
    "table with any engine if it is large.",
    example="a disk that is full right after the commit",
)

ALL_CODES: Final[tuple[Code, ...]] = tuple(
    sorted(
        (*SOURCE_CODES, *READER_CODES, *(value for value in list(globals().values()) if isinstance(value, Code))),
        key=lambda code: code.name,
    )
)
