"""Write the pages that are made from the program: cli.md from the commands, codes.md from the table of plan codes.

``--check`` only says whether they are up to date (exit code 1 when not). The text on commands comes from the declared
arguments and options, not from the help screen, whose layout is Typer's and changes with it.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import typer.main

from deltaberg.cli.main import app
from deltaberg.translate.codes import ALL_CODES

FOLDER = Path(__file__).resolve().parent

CLI_HEAD = """# The command line

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


CODES_HEAD = """# The codes of a plan

This page is made by `make docs` from the table in `translate/codes.py`; a test holds it to that. `deltaberg plan` gives each
fact about a source a code, which stays the same from version to version, and says what will be done about it.

| severity | means |
|---|---|
| info | carried, by an equivalent that is worth knowing |
| warning | carried, with something that a reader or a later writer should know; `--strict` turns it into what the last column says |
| rewrite | the files concerned are written anew for the target; all others are shared |
| refuse | the conversion is not done (exit code 3) |
"""


def codes_page() -> str:
    """Every code, by direction."""
    sections = [CODES_HEAD]
    for target, title in (("iceberg", "Delta Lake to Iceberg"), ("delta", "Iceberg to Delta Lake")):
        sections.append(f"\n## {title}\n")
        sections.append(
            "| code | severity | reason | what to do | for example | with --strict |\n|---|---|---|---|---|---|"
        )
        for code in ALL_CODES:
            if target in code.to:
                strict = code.strict.value if code.strict is not None else ""
                cells = (f"`{code.name}`", code.severity.value, code.reason, code.remedy, code.example, strict)
                sections.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(sections) + "\n"


def cli_page() -> str:
    """Every command, its options and an example."""
    group = typer.main.get_command(app)
    sections = [CLI_HEAD]
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


PAGES = {"cli.md": cli_page, "codes.md": codes_page}


def main() -> None:
    for name, page in PAGES.items():
        text, file = page(), FOLDER / name
        if "--check" not in sys.argv:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            sys.exit(f"docs/{name} is not what the program says: run `make docs`")


if __name__ == "__main__":
    main()
