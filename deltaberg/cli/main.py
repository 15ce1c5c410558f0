"""``deltaberg``: the commands put together, and the outcome of a call as a line on standard error and an exit code."""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
import typer.main

from deltaberg import __version__
from deltaberg.cli.console import print_error, print_json
from deltaberg.cli.convert import convert
from deltaberg.cli.history import history
from deltaberg.cli.inspect import inspect
from deltaberg.cli.options import Invocation
from deltaberg.cli.plan import plan
from deltaberg.cli.publish import publish
from deltaberg.cli.rollback import rollback
from deltaberg.cli.scan import scan
from deltaberg.cli.status import status
from deltaberg.cli.sync import sync
from deltaberg.cli.verify import verify
from deltaberg.errors import DeltabergError, Interrupted, Unsupported
from deltaberg.redaction import redacted

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

# Typer does not export its usage error, and newer versions carry their own copy of Click's.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="deltaberg",
    help="One set of data files, two table formats: convert between Apache Iceberg and Delta Lake, never silently wrong.",
    epilog="Exit codes: 0 done; 1 failed; 2 usage; 3 refused, the plan says why; 4 verification found a difference; "
    "5 conflict or drift; 130 interrupted; 143 terminated.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"deltaberg {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _deltaberg(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version of deltaberg.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


class _Stopped(BaseException):
    """An interrupt on its way past Typer, which would reduce it to an exit code."""


def _stoppable(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def stoppable(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            raise _Stopped from error

    return stoppable


for command in (inspect, scan, history, plan, convert, sync, publish, status, verify, rollback):
    app.command()(_stoppable(command))


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; the clean-up is that of Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    invocation = Invocation()
    # A defect of deltaberg ends the process with exit code 1; only its report is changed.
    sys.excepthook = lambda kind, error, trace: _report_defect(invocation, error)
    with _terminable():
        code = run(sys.argv[1:] if arguments is None else arguments, invocation)
    sys.exit(code)


@contextmanager
def _terminable() -> Iterator[None]:
    """While the context is active, SIGTERM is raised in the main thread, as Ctrl-C is."""

    def end(number: int, frame: object) -> NoReturn:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run(arguments: Sequence[str], invocation: Invocation) -> int:
    """Run one command; returns the exit code. An error is one line on standard error, and with ``--json`` a document."""
    try:
        # Not by calling ``app``, which puts Typer's own exception hook in place of ours.
        command = typer.main.get_command(app)
        code = command.main(args=list(arguments), prog_name="deltaberg", standalone_mode=False, obj=invocation)
        sys.stdout.flush()
    except DeltabergError as error:
        return _failed(invocation, str(error), error, error.exit_code)
    except _USAGE_ERROR as error:
        return _misused(invocation, error)
    except BrokenPipeError:
        # The reader of a pipe has closed it; buffered output cannot be delivered.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (KeyboardInterrupt, _Stopped, typer.Abort) as error:
        return _interrupted(invocation, error)
    except RecursionError as error:
        return _failed(invocation, "the metadata is nested too deeply to be read", error, EXIT_FAILED)
    except MemoryError as error:
        return _failed(invocation, "out of memory", error, EXIT_FAILED)
    return code if isinstance(code, int) else 0


def _failed(invocation: Invocation, text: str, error: BaseException, code: int) -> int:
    text = redacted(text)
    if invocation.verbose:
        print(redacted("".join(traceback.format_exception(error))), file=sys.stderr, end="")
    print_error(text)
    if invocation.json:
        known = {name: getattr(error, name, None) for name in ("table", "version", "path", "feature")}
        if isinstance(error, Interrupted):
            known["outcome"] = error.outcome
        kind = type(error).__name__
        refused = {"plan": error.plan.to_json()} if code == Unsupported.exit_code and hasattr(error, "plan") else {}
        print_json({"error": {"type": kind, "message": text, "exit_code": code, **known}, **refused})
    return code


def _interrupted(invocation: Invocation, error: BaseException) -> int:
    """One line that says how much of the target stands, where the command knows."""
    causes = tuple(_causes(error))
    code = EXIT_TERMINATED if any(isinstance(each, Terminated) for each in causes) else EXIT_INTERRUPTED
    told = next((each for each in causes if isinstance(each, Interrupted)), None)
    if told is not None:
        return _failed(invocation, f"interrupted: {told.message}", told, code)
    return _failed(invocation, "interrupted", causes[-1], code)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and its causes; typer turns an interrupt into an error of its own."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _report_defect(invocation: Invocation, error: BaseException) -> None:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    _failed(invocation, f"a defect in deltaberg, please report it with the output of -v: {text}", error, EXIT_FAILED)


def _misused(invocation: Invocation, error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "deltaberg"
    message = getattr(error, "format_message", error.__str__)().rstrip(".").replace("\n", " ")
    return _failed(invocation, f"{message}. Try: {command} --help", error, EXIT_USAGE)
