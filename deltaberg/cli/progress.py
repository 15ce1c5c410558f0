"""A progress bar on a terminal for operations of more than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType

SHOW_AFTER_SECONDS = 1.0


class ProgressBar:
    """Called with ``(stage, done, total)``, it draws on standard error; total 0 draws a count without an end.

    It draws nothing before a second has passed, nothing where standard error is no terminal, and leaves nothing behind.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._enabled = sys.stderr.isatty()
        self._begin = time.monotonic()
        self._bar: _Bar | None = None

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, stage: str, done: int, total: int) -> None:
        if not self._enabled:
            return
        if self._bar is None:
            if time.monotonic() - self._begin < SHOW_AFTER_SECONDS:
                return
            self._bar = _Bar()
        self._bar.show(f"{self._what}: {stage}" if stage else self._what, done, total)


class _Bar:
    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        from deltaberg.cli.console import stderr

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[counts]}"),
            TimeElapsedColumn(),
            console=stderr(),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, counts="")
        self._progress.start()

    def show(self, description: str, done: int, total: int) -> None:
        self._progress.update(
            self._task,
            description=description,
            completed=done,
            total=total or None,
            counts=f"{done:,} of {total:,}" if total else f"{done:,}",
        )

    def stop(self) -> None:
        self._progress.stop()
