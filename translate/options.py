"""The options of a conversion. Every default is the choice that keeps rows right in every reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, TypedDict, get_type_hints

from deltaberg.errors import UsageError
from deltaberg.keywords import check_keywords

ColumnMappingChoice = Literal["auto", "id", "name", "none"]
FormerNames = Literal["refuse", "trust-ids", "rewrite"]
History = Literal["latest", "all"]
Engine = Literal["auto", "local", "spark"]
IcebergCompat = Literal["none", "v1", "v2", "v3"]
FormatVersion = Literal[1, 2, 3]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """The choices behind the flags of ``plan`` and ``convert``. Raises UsageError for a value that an option cannot
    have.

    format_version: Iceberg target: 1, 2 or 3; None takes the lowest that carries everything.
    history: ``latest`` makes one commit of the chosen state, ``all`` one commit a source commit.
    strict: every warning becomes a rewrite where one helps, else a refusal; every file's footer is read. deep: read
    every file's footer, also of files that the metadata proves to be the table's own. column_mapping: Delta target: the
    mapping mode; ``auto`` is ``id`` where the files carry ids. derive_partition_columns: Delta target: year, month,
    day, hour and truncate transforms become generated columns. former_names: Delta target: the handling of files that
    hold a column under a former name.
    type_mappings: ``{"uuid": "string"}``: the target type of a type that the target lacks.
    partition_timezone: the zone of timestamp partition values that a Delta log states without one.
    iceberg_compat: Delta target: an Iceberg compatibility version to enforce and declare.
    engine: where the files that cannot be shared are rewritten.
    target_file_size: bytes that rewritten files should have: small ones of a partition are combined, large ones split;
        None: one file for each.
    """

    format_version: FormatVersion | None = None
    history: History = "latest"
    strict: bool = False
    deep: bool = False
    column_mapping: ColumnMappingChoice = "auto"
    derive_partition_columns: bool = False
    former_names: FormerNames = "refuse"
    type_mappings: Mapping[str, str] = field(default_factory=dict)
    partition_timezone: str = "UTC"
    iceberg_compat: IcebergCompat = "none"
    engine: Engine = "auto"
    target_file_size: int | None = None

    @property
    def reads_all_footers(self) -> bool:
        """Whether every footer is read, even where the metadata proves that one describes several files."""
        return self.deep or self.strict

    def __post_init__(self) -> None:
        check_keywords("Cannot convert", {name: getattr(self, name) for name in option_types()}, option_types())
        if self.target_file_size is not None:
            # NumPy's whole numbers have no JSON form.
            object.__setattr__(self, "target_file_size", int(self.target_file_size))


class OptionKeywords(TypedDict, total=False):
    """``ConvertOptions`` as keywords of a function that has its engine already."""

    format_version: FormatVersion | None
    history: History
    strict: bool
    deep: bool
    column_mapping: ColumnMappingChoice
    derive_partition_columns: bool
    former_names: FormerNames
    type_mappings: Mapping[str, str]
    partition_timezone: str
    iceberg_compat: IcebergCompat
    target_file_size: int | None


@cache
def option_types() -> Mapping[str, Any]:
    """The type of each option."""
    return get_type_hints(ConvertOptions)


def chosen_options(options: ConvertOptions | None, keywords: Mapping[str, Any]) -> ConvertOptions:
    """The options of a call, of which each may be in ``options`` or be a keyword. Raises UsageError where one is both."""
    options, usual = options or ConvertOptions(), ConvertOptions()
    for name in keywords:
        if getattr(options, name) != getattr(usual, name):
            raise UsageError(f"Cannot convert: {name} is given as a keyword and in options; leave one out")
    return replace(options, **keywords)
