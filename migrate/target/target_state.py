"""The state of a target's folder before a conversion, determined once: ``plan`` reports it, ``convert`` acts on it."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Literal

from deltaberg.delta.commit.distributed_create import FIRST_VERSION, is_claimed
from deltaberg.delta.log.log_path import commit_name, log_folder
from deltaberg.migrate.source import Source, TableFormat
from deltaberg.migrate.target.existing_target import ExistingTarget, existing_target
from deltaberg.migrate.target.interrupted_create import creation_lock_text
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.watermark import Watermark, watermark_of
from deltaberg.migrate.to_delta.entries import HIDDEN_FOLDER
from deltaberg.translate.options import ConvertOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedConversion:
    """A replay that was interrupted: the snapshot and schema it got to, and its plan document."""

    snapshot_id: int
    schema_id: int | None
    plan_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetState:
    """``new``: no table is there. ``begun``: a replay to continue. ``current``: ``existing`` is the table that was
    asked for.
    """

    existing: ExistingTarget | None = None
    begun: InterruptedConversion | None = None

    @property
    def name(self) -> Literal["new", "begun", "current"]:
        return "new" if self.existing is None else "begun" if self.begun is not None else "current"


def target_state(source: Source, to: TableFormat, root: str, options: ConvertOptions) -> TargetState:
    """Read the target's folder; nothing is written. Raises Conflict where the conversion must not touch the table
    there, and the errors of reading it.
    """
    storage, watermark, text = source.storage, watermark_of(source), options_text(options)
    # Files that this very conversion left unfinished are no table: they are deleted before anything is written.
    cleared = (
        to is TableFormat.DELTA
        and is_claimed(storage, root, creation_lock=creation_lock_text(watermark, text))
        and not storage.exists(f"{log_folder(root)}/{commit_name(FIRST_VERSION)}")
    )
    held = None if cleared else existing_target(storage, root, to)
    if held is None:
        return TargetState()
    begun = _interrupted(source, to, root, options, held, watermark)
    if begun is None:
        held.require(watermark, options_text=text, root=root, source=source)
    return TargetState(existing=held, begun=begun)


def options_text(options: ConvertOptions) -> str:
    """The choices that differ from the defaults, as they are kept with the target; the engine is not among them."""
    usual = ConvertOptions()
    chosen = {
        each.name: getattr(options, each.name)
        for each in fields(ConvertOptions)
        if each.name != "engine" and getattr(options, each.name) != getattr(usual, each.name)
    }
    return json.dumps(chosen, sort_keys=True, default=dict)


def plan_prefix(watermark: Watermark) -> str:
    """The prefix of plan documents, relative to the target; the rest of the name is each conversion's own."""
    return f"{HIDDEN_FOLDER}/plan-{0 if watermark.version is None else watermark.version}-"


def _interrupted(
    source: Source, to: TableFormat, root: str, options: ConvertOptions, held: ExistingTarget, watermark: Watermark
) -> InterruptedConversion | None:
    """How far a replay of this very position got before it was killed; None where none was."""
    if options.history != "all" or to is not TableFormat.DELTA or held.watermark is None:
        return None
    if held.watermark.version is None or held.plan_name is None:
        return None
    reached = replace(
        watermark,
        version=held.watermark.version,
        schema_id=held.watermark.schema_id,
        fingerprint=held.watermark.fingerprint,
    )
    if reached != held.watermark:
        return None
    if held.watermark.is_same_state(watermark) or not held.untouched or held.options_text != options_text(options):
        return None
    if not held.plan_name.startswith(plan_prefix(watermark)):
        return None
    if not source.storage.exists(join(root, held.plan_name)):
        return None
    return InterruptedConversion(
        snapshot_id=held.watermark.version, schema_id=held.watermark.schema_id, plan_name=held.plan_name
    )
