"""The options of a conversion, shared by every command that plans one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from deltaberg.cli.selection import byte_count, type_mappings

if TYPE_CHECKING:
    from deltaberg.translate.options import ConvertOptions

HistoryChoice = Literal["latest", "all"]
ColumnMapping = Literal["auto", "id", "name", "none"]
FormerNames = Literal["refuse", "trust-ids", "rewrite"]
Compat = Literal["none", "v1", "v2", "v3"]
EngineName = Literal["auto", "local", "spark"]

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Folder of the new table. Default: SOURCE/_iceberg, or _delta_log in the Iceberg table.",
        metavar="DIR",
    ),
]
History = Annotated[
    HistoryChoice,
    typer.Option("--history", help="One commit of this state, or one for each source commit.", metavar="latest|all"),
]
FormatVersion = Annotated[
    int | None,
    typer.Option(
        "--format-version",
        help="To Iceberg: format version. Default: the lowest that carries everything.",
        metavar="1|2|3",
        min=1,
        max=3,
        show_default=False,
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Turn every warning into a rewrite or a refusal; implies --deep.")
]
Deep = Annotated[
    bool,
    typer.Option("--deep", help="Read every data file's footer, also where metadata proves its layout."),
]
Mapping = Annotated[
    ColumnMapping,
    typer.Option("--column-mapping", help="To Delta: how columns are found in files.", metavar="auto|id|name|none"),
]
DerivePartitions = Annotated[
    bool,
    typer.Option(
        "--derive-partition-columns", help="To Delta: year, month, day, hour, truncate become generated columns."
    ),
]
FormerNameChoice = Annotated[
    FormerNames,
    typer.Option(
        "--former-names",
        help="To Delta: files that hold a column under a former name.",
        metavar="refuse|trust-ids|rewrite",
    ),
]
TypeMappings = Annotated[
    list[str] | None,
    typer.Option("--map", help="Convert a type that the target lacks; may be repeated.", metavar="uuid=string"),
]
PartitionTimezone = Annotated[
    str,
    typer.Option(
        "--partition-timezone", help="To Iceberg: time zone of timestamp partition values without one.", metavar="ZONE"
    ),
]
IcebergCompat = Annotated[
    Compat,
    typer.Option("--iceberg-compat", help="To Delta: enforce and declare icebergCompat.", metavar="none|v1|v2|v3"),
]
EngineChoice = Annotated[
    EngineName,
    typer.Option(
        "--engine", help="Where the work is done: in this process or in Spark tasks.", metavar="auto|local|spark"
    ),
]
Clean = Annotated[
    bool,
    typer.Option(
        "--clean",
        help="First remove what unfinished conversions to this target left, also where nothing proves that they are dead; "
        "only those that surely run are spared. Each file is named.",
    ),
]
TargetFileSize = Annotated[
    str | None,
    typer.Option(
        "--target-file-size",
        help="Combine and split the files that are rewritten to this size.",
        metavar="SIZE",
        show_default=False,
    ),
]


def conversion(
    *,
    history: HistoryChoice,
    format_version: int | None,
    strict: bool,
    deep: bool,
    column_mapping: ColumnMapping,
    derive_partition_columns: bool,
    former_names: FormerNames,
    type_map: list[str] | None,
    partition_timezone: str,
    iceberg_compat: Compat,
    engine: EngineName,
    target_file_size: str | None,
) -> ConvertOptions:
    """The choices as the Python API takes them."""
    from deltaberg.translate.options import ConvertOptions

    return ConvertOptions(
        history=history,
        format_version=cast("Literal[1, 2, 3] | None", format_version),
        strict=strict,
        deep=deep,
        column_mapping=column_mapping,
        derive_partition_columns=derive_partition_columns,
        former_names=former_names,
        type_mappings=type_mappings(type_map or ()),
        partition_timezone=partition_timezone,
        iceberg_compat=iceberg_compat,
        engine=engine,
        target_file_size=None if target_file_size is None else byte_count(target_file_size),
    )
