"""Codes about schemas: types, names, ids and defaults."""

from __future__ import annotations

from typing import Final

from deltaberg.translate.findings import Code, Severity

_ICEBERG: Final = ("iceberg",)
_DELTA: Final = ("delta",)
_BOTH: Final = ("iceberg", "delta")

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
    remedy="Nothing to do; files that hold the column are rewritten, padded.",
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
    reason="The other format cannot express this default for writers; rows are not affected.",
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
    reason="Files hold the column under another name than most do, or another column under its name. Mode id finds it "
    "by the protocol, yet readers that go by physical name (DuckDB, delta-rs, DataFusion) give null or the other "
    "column's values, without an error.",
    remedy="Choose --former-names rewrite (those files are rewritten) or --former-names trust-ids (all readers "
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
    reason="The files carry no field ids and name the columns differently from the rest of the table.",
    remedy="Nothing to do; these files are rewritten.",
    example="imported files whose names the name mapping translates",
)
INITIAL_DEFAULT: Final = Code(
    name="initial-default",
    severity=Severity.REWRITE,
    to=_DELTA,
    reason="Rows of files without the column read as its default; Delta reads such rows as null.",
    remedy="Nothing to do; these files are rewritten with the value.",
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
    remedy="Nothing to do; these files are rewritten.",
    example="a Delta column widened from int to double",
)
NESTED_IDS_MISSING: Final = Code(
    name="nested-ids-missing",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The files carry field ids, but none on list elements and map keys and values; Iceberg readers then "
    "cannot read those columns.",
    remedy="Nothing to do; these files are rewritten. Delta writes complete ids under icebergCompatV2 and V3.",
    example="a Delta table with column mapping and an array column",
)
FIELD_IDS_FOREIGN: Final = Code(
    name="field-ids-foreign",
    severity=Severity.REWRITE,
    to=_ICEBERG,
    reason="The files carry field ids that are not the table's; Iceberg readers would read the wrong columns.",
    remedy="Nothing to do; these files are rewritten.",
    example="a Delta table without column mapping over files that an Iceberg writer made",
)
