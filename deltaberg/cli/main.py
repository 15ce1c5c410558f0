"""``deltaberg``: the commands put together, and the outcome of a call as a line on standard error and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from deltaberg import __version__
from deltaberg.cli.console import print_error, print_json
from deltaberg.cli.convert import convert
from deltaberg.cli.history import history
from deltaberg.cli.inspect import inspect
from deltaberg.cli.options import Invocation
from deltaberg.cli.plan import plan
from deltaberg.cli.scan import scan
from deltaberg.cli.verify import verify
from deltaberg.errors import DeltabergError, Unsupported

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

# Typer does not export its usage error, and newer versions carry their own copy of Click's.
_USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="deltaberg",
    help="One set of data files, two table formats: convert between Apache Iceberg and Delta Lake, never silently wrong.",
    epilog="Exit codes: 0 done; 1 failed; 2 usage; 3 refused, the plan says why; 4 verification found a difference; "
    "5 conflict or drift.",
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


for command in (inspect, scan, history, plan, convert, verify):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    invocation = Invocation()
    # A defect of ours ends the process by itself, with exit code 1: only its report is changed.
    sys.excepthook = lambda kind, error, trace: _report_defect(invocation, error)
    sys.exit(run(sys.argv[1:] if arguments is None else arguments, invocation))


def run(arguments: Sequence[str], invocation: Invocation) -> int:
    """Run one command; gives the exit code. An error is one line on standard error, and with ``--json`` a document."""
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
        # The reader of a pipe left; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (KeyboardInterrupt, typer.Abort):
        print("deltaberg: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except RecursionError as error:
        return _failed(invocation, "the metadata is nested too deeply to be read", error, EXIT_FAILED)
    except MemoryError as error:
        return _failed(invocation, "out of memory", error, EXIT_FAILED)
    return code if isinstance(code, int) else 0


def _failed(invocation: Invocation, text: str, error: BaseException, code: int) -> int:
    if invocation.verbose:
        traceback.print_exception(error, file=sys.stderr)
    print_error(text)
    if invocation.json:
        known = {name: getattr(error, name, None) for name in ("table", "version", "path", "feature")}
        kind = type(error).__name__
        refused = {"plan": error.plan.to_json()} if code == Unsupported.exit_code and hasattr(error, "plan") else {}
        print_json({"error": {"type": kind, "message": text, "exit_code": code, **known}, **refused})
    return code


def _report_defect(invocation: Invocation, error: BaseException) -> None:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    _failed(invocation, f"a defect in deltaberg, please report it with the output of -v: {text}", error, EXIT_FAILED)


def _misused(invocation: Invocation, error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "deltaberg"
    message = getattr(error, "format_message", error.__str__)().rstrip(".").replace("\n", " ")
    return _failed(invocation, f"{message}. Try: {command} --help", error, EXIT_USAGE)
