"""The outcome of an interrupted conversion, read from the target, the only place that shows it."""

from __future__ import annotations

from deltaberg.errors import DeltabergError, Interrupted
from deltaberg.migrate.source import TableFormat
from deltaberg.migrate.target.existing_target import existing_target
from deltaberg.migrate.target.locations import join
from deltaberg.migrate.target.run_document import RunId
from deltaberg.migrate.target.watermark import Watermark
from deltaberg.storage import Storage


def what_stands(
    storage: Storage,
    root: str,
    to: TableFormat,
    watermark: Watermark,
    run: RunId,
    *,
    before: Watermark | None = None,
) -> Interrupted:
    """The error to raise in place of the interrupt, once the conversion has rolled back what it could.

    before: what a target held that was to be brought up to date.
    """
    try:
        held = existing_target(storage, root, to)
        unfinished = storage.exists(join(root, run.document_name))
    except DeltabergError as error:
        return Interrupted(f"outcome unknown: {root} cannot be looked at now ({error})", table=root, outcome="unknown")
    reached = None if held is None else held.watermark
    if reached is not None and reached.is_same_state(watermark):
        return Interrupted(f"{root} stands, with {watermark.describe()}", table=root, outcome="stands")
    if before is not None and reached is not None and reached.is_same_state(before) and not unfinished:
        return Interrupted(
            f"nothing was written to {root}, which stands with {before.describe()}",
            table=root,
            outcome="nothing-written",
        )
    if reached is not None and (reached.format, reached.uuid) == (watermark.format, watermark.uuid):
        return Interrupted(
            f"{root} stands up to {reached.describe()}; what came after it was not committed, and the next run goes on there",
            table=root,
            outcome="stands-in-part",
        )
    if not unfinished:
        return Interrupted(f"nothing was written to {root}", table=root, outcome="nothing-written")
    if held is None and not storage.resolve(root).startswith("/"):
        return Interrupted(
            f"outcome unknown: the commit to {root} may have been under way, and its store shows no table yet; nothing was "
            "removed, and the next run finds out",
            table=root,
            outcome="unknown",
        )
    return Interrupted(
        f"no table was written to {root}, but files are left there, which the next run removes",
        table=root,
        outcome="left-files",
    )
