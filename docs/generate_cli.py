"""Write docs/cli.md from the commands themselves; ``--check`` only says whether it is up to date (exit code 1 when not).

The text comes from the declared arguments and options, not from the help screen, whose layout is Typer's and changes with it.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import typer.main

from deltaberg.cli.main import app

PAGE = Path(__file__).resolve().parent / "cli.md"

HEAD = """# The command line

This page is made from the commands by `make docs`; a test holds it to them. The same verbs are functions:
`deltaberg.inspect(...)`, `deltaberg.scan(...)` and so on; what they return has a `to_json()`, which is what `--json` prints.

TABLE is a folder, an Iceberg `*.metadata.json` or a URL that [obstore](https://developmentseed.org/obstore/) understands
(`s3://`, `gs://`, `az://`, ...); the format is detected. Results go to standard output, everything else to standard error.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed: a file is missing or corrupt, a place cannot be written |
| 2 | usage: the request itself makes no sense |
| 3 | refused: cannot be converted or read as asked; the plan says why |
| 4 | verification found a difference |
| 5 | conflict or drift: somebody else committed, or the target holds another table |

An error is one line that names the table and the file and says what to do; `-v` adds the traceback. With `--json` it is also
a document: `{"error": {"type", "message", "exit_code", "table", "version", "path", "feature"}}`.
"""


def page() -> str:
    """The whole document."""
    group = typer.main.get_command(app)
    sections = [HEAD]
    for name, command in group.commands.items():
        description, _, example = inspect.cleandoc(command.callback.__doc__ or "").partition("\b\nExample:\n")
        arguments = [p for p in command.params if p.param_type_name == "argument"]
        options = [p for p in command.params if p.param_type_name == "option" and "--help" not in p.opts]
        usage = " ".join(["deltaberg", name, *(a.metavar or a.name.upper() for a in arguments), "[OPTIONS]"])
        sections.append(f"## deltaberg {name}\n\n{description.strip()}\n\n```\n{usage}\n```\n\n")
        sections.append("Example:\n\n```\n" + inspect.cleandoc(example) + "\n```\n\n")
        sections.append("| option | meaning |\n|---|---|\n")
        sections.extend(option_row(option) for option in options)
        sections.append("\n")
    return "\n".join(sections[:1]) + "\n" + "".join(sections[1:]).rstrip("\n") + "\n"


def option_row(option: typer.core.TyperOption) -> str:
    """One line of the table of options."""
    names = ", ".join(sorted(option.opts, key=len, reverse=True))
    shown = names if option.is_flag else f"{names} {option.metavar}"
    default = option.default if isinstance(option.default, str) else None
    remarks = [option.help or ""]
    if option.required:
        remarks.append("Required.")
    if default is not None:
        remarks.append(f"Default: {default}.")
    text = " ".join(remark.rstrip(".") + "." for remark in remarks if remark)
    return "| `" + shown.replace("|", "\\|") + f"` | {text} |\n"


def main() -> None:
    text = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit("docs/cli.md is not what the commands say: run `make docs`")
        return
    PAGE.write_text(text, encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
