"""Plans of conversions: the decisions and their reasons, read-only."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltaberg.errors import UsageError
from deltaberg.migrate.engine import LocalEngine, Splits
from deltaberg.migrate.engine_choice import engine_of
from deltaberg.migrate.files.footers import Progress, silent
from deltaberg.migrate.files.rewrite import LOCAL_LIMIT_BYTES
from deltaberg.migrate.plan_report import Plan, items_of
from deltaberg.migrate.refusal import STOPS_AT_SOURCE, refused_by_source
from deltaberg.migrate.source import DeltaSource, IcebergSource, Source, TableFormat, naming_target
from deltaberg.migrate.target.file_count import DISTRIBUTE_FROM, stated_files
from deltaberg.migrate.target.target_root import target_root
from deltaberg.migrate.target.target_state import target_state
from deltaberg.migrate.target.watermark import describe_source
from deltaberg.migrate.to_delta.design import DeltaConversionPlan, design_delta
from deltaberg.migrate.to_iceberg.design import IcebergConversionPlan, design_iceberg
from deltaberg.translate import codes
from deltaberg.translate.findings import Finding
from deltaberg.translate.options import ConvertOptions
from deltaberg.translate.types import TYPE_MAPPINGS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALLEST_TARGET_SIZE: Final = 1 << 20
"""The range of ``--target-file-size``, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedPlan:
    """A plan with the decisions that ``convert`` carries out."""

    plan: Plan
    design: IcebergConversionPlan | DeltaConversionPlan
    options: ConvertOptions


def plan(
    source: Source,
    *,
    to: TableFormat | str,
    options: ConvertOptions | None = None,
    target: str | None = None,
    session: SparkSession | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Decide what a conversion will do with every property and every file. Writes nothing.

    target: the folder that will be passed to ``convert``. progress: called for footers that are read one by one.

    A source whose metadata cannot be read is a refusal of the plan. Raises UsageError where ``to`` is the source's own
    format or an option does not apply to it, and like ``convert`` where the target's folder holds another table or one
    that was changed by another writer (Conflict).
    """
    options = options or ConvertOptions()
    root = target_root(source, target)
    check_request(source, TableFormat(to), options)
    source = naming_target(source, root, writes=False)
    state = target_state(source, TableFormat(to), root, options)
    if state.name == "current":
        return nothing_to_do(source, TableFormat(to), root)
    # A session is not worth starting for the plan of a small table.
    worth_it = session is not None or (options.engine == "spark" and stated_files(source) >= DISTRIBUTE_FROM)
    engine = engine_of(options.engine, session) if worth_it else LocalEngine()
    try:
        with engine.splits_of(source, options, target=None, progress=progress or silent) as splits:
            made = prepare(source, to=to, options=options, splits=splits, root=root, progress=progress).plan
            return replace(made, target={**made.target, "location": root, "state": state.name})
    except STOPS_AT_SOURCE as error:
        return refused_by_source(error, source=describe_source(source), to=TableFormat(to).value, location=root)


def nothing_to_do(source: Source, to: TableFormat, root: str) -> Plan:
    """The plan for a target that holds the source's state already."""
    target = {"format": to.value, "location": root, "state": "current"}
    return Plan(source=describe_source(source), target=target, measured=False)


def prepare(
    source: Source,
    *,
    to: TableFormat | str,
    splits: Splits,
    options: ConvertOptions | None = None,
    root: str | None = None,
    progress: Progress | None = None,
) -> PreparedPlan:
    """``plan``, and the decisions behind it. splits: look at the files. root: the target's folder; None: the usual one.

    Raises the errors of reading the source.
    """
    options = options or ConvertOptions()
    check_request(source, TableFormat(to), options)
    match source:
        case DeltaSource():
            return _to_iceberg(source, options, splits, progress or silent)
        case IcebergSource():
            root = target_root(source, None) if root is None else root
            return _to_delta(source, options, splits, root)


def check_request(source: Source, to: TableFormat, options: ConvertOptions) -> None:
    """Raise UsageError for a request that makes no sense, for every table."""
    if to is source.format:
        raise UsageError(f"Cannot convert {source.location} to {to.value}: it is a table of that format already")
    for option, chosen, meant in (
        ("--column-mapping", options.column_mapping != "auto", TableFormat.DELTA),
        ("--derive-partition-columns", options.derive_partition_columns, TableFormat.DELTA),
        ("--former-names", options.former_names != "refuse", TableFormat.DELTA),
        ("--iceberg-compat", options.iceberg_compat != "none", TableFormat.DELTA),
        ("--map", bool(options.type_mappings), TableFormat.DELTA),
        ("--format-version", options.format_version is not None, TableFormat.ICEBERG),
        ("--partition-timezone", options.partition_timezone != "UTC", TableFormat.ICEBERG),
    ):
        if chosen and to is not meant:
            name = meant.value.capitalize()
            raise UsageError(f"Cannot convert to {to.value} with {option}: it is for {name} targets only; leave it out")
    if options.target_file_size is not None:
        if options.target_file_size < SMALLEST_TARGET_SIZE:
            raise UsageError(
                f"Cannot write files of {options.target_file_size} bytes: --target-file-size is at least "
                f"{SMALLEST_TARGET_SIZE >> 20} MiB"
            )
        if options.history == "all":
            raise UsageError(
                "Cannot combine files of several versions: --target-file-size does not go with --history all; leave one out"
            )
    for kind, target in options.type_mappings.items():
        known = TYPE_MAPPINGS.get(kind)
        if known is None or target not in known:
            choices = ", ".join(f"{name}={each}" for name, targets in TYPE_MAPPINGS.items() for each in targets)
            raise UsageError(f"Cannot map type {kind} to {target}: expected one of {choices}")
    try:
        ZoneInfo(options.partition_timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"Cannot use the time zone {options.partition_timezone!r}: expected a name such as Europe/Berlin"
        ) from error


def _to_iceberg(source: DeltaSource, options: ConvertOptions, splits: Splits, progress: Progress) -> PreparedPlan:
    design = design_iceberg(source, options, survey_files=splits.survey_iceberg, progress=progress)
    totals = design.totals
    findings = [*design.findings, *_engine_findings(source, options, totals.rewritten_files, totals.rewritten_bytes)]
    made = Plan(
        source=describe_source(source),
        target={
            "format": TableFormat.ICEBERG.value,
            "format_version": design.format_version,
            "partitioning": [field.name for field in design.spec.fields],
            "row_lineage": design.carries_lineage,
            **_sizes(options),
        },
        items=items_of(findings, strict=options.strict),
        files=totals.files,
        rows=totals.rows,
        bytes=totals.bytes,
        shared_files=totals.files - totals.rewritten_files,
        rewritten_files=totals.rewritten_files,
        rewritten_bytes=totals.rewritten_bytes,
        deletes={"vectors": totals.vectors, "position": 0, "equality": 0, "rows": totals.deleted_rows},
        footers=design.reader.survey.count,
    )
    return PreparedPlan(plan=made, design=design, options=options)


def _to_delta(source: IcebergSource, options: ConvertOptions, splits: Splits, root: str) -> PreparedPlan:
    design = design_delta(source, options, root, survey_files=splits.survey_delta)
    anew = [group for group in design.groups if (group.layout, group.spec_id) in design.rewritten]
    rewritten = sum(group.files for group in anew)
    rewritten_bytes = sum(group.bytes for group in anew)
    findings = [*design.findings, *_engine_findings(source, options, rewritten, rewritten_bytes)]
    files = sum(group.files for group in design.groups)
    taken = design.deletes["rows"] if len(design.ancestry.distinct) == 1 else 0
    made = Plan(
        source=describe_source(source),
        target={
            "format": TableFormat.DELTA.value,
            "column_mapping": design.mode.value,
            "partitioning": list(design.partitioning.names),
            "row_tracking": design.lineage,
            **_sizes(options),
        },
        items=items_of(findings, strict=options.strict),
        files=files,
        rows=sum(group.rows for group in design.groups) - taken,
        bytes=sum(group.bytes for group in design.groups),
        shared_files=files - rewritten,
        rewritten_files=rewritten,
        rewritten_bytes=rewritten_bytes,
        deletes=dict(design.deletes),
        footers=design.footers.count,
    )
    return PreparedPlan(plan=made, design=design, options=options)


def _sizes(options: ConvertOptions) -> dict[str, int]:
    """The target size of rewritten files; no other file is touched."""
    return {} if options.target_file_size is None else {"size_of_rewritten_files": options.target_file_size}


def _engine_findings(source: Source, options: ConvertOptions, files: int, size: int) -> list[Finding]:
    """Whether this machine should rewrite this many bytes."""
    if not files or options.engine != "auto" or size <= LOCAL_LIMIT_BYTES:
        return []
    command = f"deltaberg convert {shlex.quote(source.location)} --to {source.format.other.value} --engine spark"
    return [
        Finding(
            code=codes.REWRITE_ELSEWHERE,
            what="files to rewrite",
            detail=f"{files} files, {size >> 30} GiB",
            files=files,
            remedy=f"Run it on a cluster: {command} (docs/spark.md); or rewrite them here with --engine local.",
        )
    ]
