"""``deltaberg publish``: keep many tables in both formats."""

from __future__ import annotations

import json as json_text
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deltaberg.cli import options
from deltaberg.errors import UsageError

if TYPE_CHECKING:
    from deltaberg.migrate.publish.config import PublisherConfig
    from deltaberg.migrate.publish.publisher import Publisher
    from deltaberg.migrate.publish.table_job import TurnOutcome

LogFormat = Literal["text", "json"]

Once = Annotated[bool, typer.Option("--once", help="Give every table one turn, then end.")]
Interval = Annotated[
    float | None,
    typer.Option("--interval", help="Between two turns of a table; the file's own where left out.", metavar="SECONDS"),
]
Validate = Annotated[bool, typer.Option("--validate", help="Check the file and plan every table; write nothing.")]
Listen = Annotated[
    str | None,
    typer.Option("--listen", help="Answer /metrics, /health and POST /sync/NAME.", metavar="127.0.0.1:PORT"),
]
LogFormatChoice = Annotated[
    LogFormat, typer.Option("--log-format", help="How standard error says what was done.", metavar="text|json")
]


def publish(
    config: options.ConfigFile,
    once: Once = False,
    interval: Interval = None,
    validate: Validate = False,
    listen: Listen = None,
    log_format: LogFormatChoice = "text",
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Keep many tables up to date in both formats.

    Each table has its turn at its interval: where its source shows something new, its target is brought up to date as by
    deltaberg sync. A table that fails is tried again after a while and keeps no other from its turn. Publishers that share
    a configuration share the work.

    Runs until SIGTERM, which lets what is at work finish and ends with exit code 0. With --once or --validate, exit code 1
    if any table failed.

    POST /sync/NAME gives a table its turn at once; it needs the token of DELTABERG_PUBLISH_TOKEN.

    \b
    Example:
      deltaberg publish tables.yaml --once
    """
    from deltaberg.cli.console import print_error, print_json
    from deltaberg.migrate.publish.config_file import read_config
    from deltaberg.migrate.publish.publisher import Publisher, with_interval

    if validate and (once or listen is not None):
        raise UsageError("Cannot use --validate with --once or --listen: it only looks; leave them out")
    if json and not (once or validate):
        raise UsageError(
            "Cannot use --json: a publisher that goes on has no end to print; use --once or --log-format json"
        )
    tables = read_config(config)
    if interval is not None:
        if not interval > 0:
            raise UsageError(f"Cannot use --interval {interval:g}: expected seconds above 0")
        tables = with_interval(tables, interval)
    for note in tables.notes:
        print_error(f"warning: {note}")
    if validate:
        _validate(tables, json)
        return
    publisher = Publisher(tables, observer=_LOGS[log_format])
    with _listening(publisher, listen), _stopped_by_signal(publisher):
        if not once:
            publisher.run()
            return
        report = publisher.run_once()
    if json:
        print_json(report.to_json())
    if report.failed:
        raise typer.Exit(1)


@contextmanager
def _stopped_by_signal(publisher: Publisher) -> Iterator[None]:
    """Meanwhile the first SIGTERM stops the publisher; another one does what it did before."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, before)
        publisher.stop()

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _listening(publisher: Publisher, listen: str | None) -> Any:
    if listen is None:
        return nullcontext()
    import os

    from deltaberg.migrate.publish.server import TOKEN_VARIABLE, listen_address, serving

    return serving(publisher, listen_address(listen), token=os.environ.get(TOKEN_VARIABLE))


def _validate(config: PublisherConfig, json: bool) -> None:
    import time

    from deltaberg.cli.console import print_error, print_json
    from deltaberg.cli.status import show
    from deltaberg.migrate.publish.standing import validated

    now_ms = time.time_ns() // 1_000_000
    found = [validated(table, now_ms=now_ms) for table in config.tables]
    failed = [each for each in found if each.state in {"failed", "drifted"}]
    if json:
        print_json(
            {
                "tables": [each.to_json() for each in found],
                "failed": [each.name for each in failed],
                "notes": list(config.notes),
            }
        )
    else:
        show(found)
    for each in failed:
        print_error(
            f"{each.name}: {each.error.message if each.error is not None else 'somebody else has changed the target'}"
        )
    if failed:
        raise typer.Exit(1)


def _json_log(outcome: TurnOutcome) -> None:
    """One JSON object a line; a table that shows nothing new says nothing."""
    if outcome.state == "unchanged":
        return
    from deltaberg.redaction import redacted_json
    from deltaberg.timestamps import moment_text

    said = {
        "time": moment_text(_now_ms()),
        "level": "error" if outcome.failure is not None else "info",
        **outcome.to_json(),
    }
    print(json_text.dumps(redacted_json(said), ensure_ascii=False, allow_nan=False), file=sys.stderr, flush=True)


def _text_log(outcome: TurnOutcome) -> None:
    if outcome.state == "unchanged":
        return
    from deltaberg.cli.console import error_line, plural
    from deltaberg.timestamps import moment_text

    more = {
        "created": f"created at {outcome.target} in {plural(len(outcome.commits), 'commit')}, {outcome.seconds:.2f} s",
        "synced": f"{plural(len(outcome.commits), 'commit')} up to {outcome.position}, {outcome.seconds:.2f} s",
        "current": f"current at {outcome.position}",
        "held": f"another publisher is at work: {outcome.owner}",
        "failed": "" if outcome.failure is None else f"failed: {outcome.failure.message}",
    }
    line = f"{moment_text(_now_ms())} {outcome.name}: {more.get(outcome.state, outcome.state)}"
    print(error_line(line), file=sys.stderr, flush=True)


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


_LOGS: dict[LogFormat, Callable[[TurnOutcome], None]] = {"text": _text_log, "json": _json_log}
