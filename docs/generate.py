"""Write the pages that are made from the program: cli.md from the commands, the others from tables of facts.

``--check`` only says whether they are up to date (exit code 1 when not). The text on commands comes from the declared
arguments and options, not from the help screen, whose layout is Typer's and changes with it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

import typer.main

from deltaberg.cli.main import app
from deltaberg.delta.protocol.table_features import FEATURES
from deltaberg.translate.codes import ALL_CODES
from deltaberg.translate.deletes import DELETE_RULES
from deltaberg.translate.derived_columns import DERIVATION_RULES
from deltaberg.translate.findings import Severity
from deltaberg.translate.iceberg_features import ICEBERG_FEATURES
from deltaberg.translate.properties import PROPERTY_RULES
from deltaberg.translate.types import TYPE_PAIRS

FOLDER = Path(__file__).resolve().parent

CLI_HEAD = """# The command line

This page is made from the commands by `make docs`; a test keeps it up to date. Every command is also a
function: `deltaberg.inspect(...)`, `deltaberg.scan(...)` and so on; `to_json()` of its result is the document of `--json`.

TABLE is a folder, an Iceberg `*.metadata.json` or a URL that [obstore](https://developmentseed.org/obstore/) understands
(`s3://`, `gs://`, `az://`, ...); the format is detected. Results go to standard output, everything else to standard error.

| exit code | means |
|---|---|
| 0 | done |
| 1 | failed: a file is missing or corrupt, a location cannot be written, a store does not answer |
| 2 | usage: the request itself makes no sense |
| 3 | refused: cannot be converted or read as asked; the plan says why. For `plan` and `convert`, this includes a missing or corrupt table |
| 4 | verification found a difference |
| 5 | conflict or drift: another writer committed, the target holds another table or lacks files |
| 130, 143 | interrupted (Ctrl-C), terminated (SIGTERM): the message says how much of the target stands ([more](reliability.md)) |

An error is one line that names the table and the file and says what to do; `-v` adds the traceback. With `--json` it is also
a document: `{"error": {"type", "message", "exit_code", "table", "version", "path", "feature"}}`, and where `convert` refuses it has
the plan beside it, under `plan`. After an interrupt, `error.outcome` says how much of the target stands.
"""


CODES_HEAD = """# The codes of a plan

This page is made by `make docs` from the table in `translate/codes/`; a test keeps it up to date. `deltaberg plan` gives each
fact about a source a code, which does not change from version to version, and its consequence.

| severity | means |
|---|---|
| info | carried, by an equivalent that is worth knowing |
| warning | carried, with something that a reader or a later writer should know; `--strict` turns it into the severity in the last column |
| rewrite | the files concerned are rewritten for the target; all others are shared |
| refuse | the conversion is not done (exit code 3) |
"""


def codes_page() -> str:
    """Every code, by direction."""
    sections = [CODES_HEAD]
    for target, title in (("iceberg", "Delta Lake to Iceberg"), ("delta", "Iceberg to Delta Lake")):
        sections.append(f"\n## {title}\n")
        sections.append("| code | severity | reason | remedy | example | with --strict |\n|---|---|---|---|---|---|")
        for code in ALL_CODES:
            if target in code.to:
                strict = code.strict.value if code.strict is not None else ""
                cells = (f"`{code.name}`", code.severity.value, code.reason, code.remedy, code.example, strict)
                sections.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(sections) + "\n"


def refused_page() -> str:
    """Every code that refuses, by direction, and the features that are refused."""
    head = ("code", "reason", "remedy", "example")
    sections = [REFUSED_HEAD]
    for target, title in (("iceberg", "Delta Lake to Iceberg"), ("delta", "Iceberg to Delta Lake")):
        rows = (
            (f"`{code.name}`", code.reason, code.remedy, code.example)
            for code in ALL_CODES
            if target in code.to and code.severity is Severity.REFUSE
        )
        sections.append(f"\n## {title}\n\n{table(head, rows)}")
    refused = ((f"`{each.name}`", each.refusal) for each in FEATURES if each.refusal)
    return "".join((*sections, UNREAD_HEAD, "\n", table(("Delta feature", "reason"), refused)))


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


REFUSED_HEAD = """# What is refused

This page is made by `make docs` from `translate/codes/` and `delta/protocol/table_features.py`; a test keeps it up to date. Everything
else is carried, carried by an equivalent, or rewritten. A refusal is exit code 3, one line on standard error, and nothing
written; `deltaberg plan` lists all of them at once. `--strict` also refuses the codes with `refuse` in the last column of [codes.md](codes.md).
"""

UNREAD_HEAD = """
## Tables that are not read at all

Reading them could miss rows or change values, so no command reads them; `plan` and `convert` report `source-feature`. On the Delta side these are the table features below, and
every feature and protocol version that deltaberg does not know; on the Iceberg side encrypted tables, format versions above 4,
types that no version defines, and Avro codecs that Avro does not define.
"""

TYPES_HEAD = """# Types

This page is made by `make docs` from the table in `translate/types.py`; a test keeps it up to date. `*` stands for parameters
that are the same on both sides; nested types are carried with everything below them.
"""

DEFAULTS = """
## Column defaults

`CURRENT_DEFAULT` in Delta (feature `allowColumnDefaults`) and `write-default` in Iceberg (from version 3 on) are carried both ways
where they are literals of the column's type, in structs, too; the spelling may change (`7L` to `7`). The tests
(`tests/migrate/test_column_defaults.py`) check every type in both directions.

- An Iceberg `initial-default` has no counterpart in Delta: files that lack the column are rewritten with the value
  (`initial-default`). On the way back the rows hold it, and the field has none.
- `CURRENT_DEFAULT` = `NULL` equals no default, and is left out.
- Not carried, but reported (`default-not-literal`): from Delta functions and other expressions, a timestamp without a zone (it depends on the
  session's), NaN and infinities, a number that the type does not hold, and text with a backslash, whose meaning is a setting of
  Spark's session. From Iceberg, uuid, fixed, time and nanoseconds, which have no literal in Spark's SQL.
- An Iceberg text with a quote or a backslash is carried to Delta (`'it\\'s'`, as Spark reads it unless
  `spark.sql.parser.escapedStringLiterals` is set), and is for that reason not carried back.
"""

TRANSFORMS_HEAD = """# Partitioning

This page is made by `make docs` from `translate/derived_columns.py`; a test keeps it up to date. A Delta partition column
becomes an identity field. From Iceberg, identity fields that the specs of all live files share become partition columns;
the columns of other transforms stay ordinary ones, and statistics still skip files. `--derive-partition-columns` adds a
generated column for the transforms below. Their values are those of Iceberg's partition tuples, and the expressions repeat
them exactly in every session time zone. `{column}` is the source column and `{width}` the width of a truncation; every
other transform (bucket, truncate of decimal and binary, transforms of nested columns) adds none, nor does a truncation of
strings of which a value is empty, because a Delta log states the empty string as null.
"""

FEATURES_HEAD = """# Features of both formats

This page is made by `make docs` from `delta/protocol/table_features.py` and `translate/iceberg_features.py`; a test keeps it up to date.
A converted table declares exactly the features that it uses.
"""

DELETES_HEAD = """# Deletes

This page is made by `make docs` from `translate/deletes.py`; a test keeps it up to date. No data file is rewritten for
its deletes.
"""

PROPERTIES_HEAD = """# Table properties

This page is made by `make docs` from `translate/properties.py`; a test keeps it up to date. The first row that matches applies.
"""


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table with a line break behind it."""
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def types_page() -> str:
    """Every primitive type, both ways."""
    head = ("Delta", "Iceberg", "to Iceberg", "to Delta", "remarks")
    pairs = ((pair.delta, pair.iceberg, pair.to_iceberg, pair.to_delta, pair.note) for pair in TYPE_PAIRS)
    return f"{TYPES_HEAD}\n" + table(head, pairs) + DEFAULTS


def transforms_page() -> str:
    """Every transform that a generated column repeats."""
    head = ("transform", "of", "column", "type", "generated as")
    return f"{TRANSFORMS_HEAD}\n" + table(
        head,
        (
            (
                rule.transform.__name__.removesuffix("Transform").lower(),
                rule.source.__name__.removesuffix("Type").lower(),
                f"`<column>_{rule.suffix}`",
                rule.type.__class__.__name__.removesuffix("Type").lower(),
                f"`{rule.expression}`",
            )
            for rule in DERIVATION_RULES
        ),
    )


def features_page() -> str:
    """Every table feature of Delta, and what Iceberg's versions bring."""
    delta = (
        (f"`{each.name}`", each.kind.value, each.summary, f"refused: {each.refusal}" if each.refusal else each.handling)
        for each in FEATURES
    )
    iceberg = ((each.name, str(each.version), each.in_delta) for each in ICEBERG_FEATURES)
    return (
        f"{FEATURES_HEAD}\n## Delta\n\n"
        + table(("feature", "who must know it", "what it is", "in deltaberg"), delta)
        + "\n## Iceberg\n\n"
        + table(("feature", "since version", "in a Delta table"), iceberg)
    )


def deletes_page() -> str:
    """Every kind of deletes, both ways."""
    rows = ((rule.source, rule.target, rule.becomes, f"`{rule.code.name}`") for rule in DELETE_RULES)
    return f"{DELETES_HEAD}\n" + table(("source", "target", "becomes", "code in the plan"), rows)


def properties_page() -> str:
    """What becomes of table properties, both ways."""
    rows = ((rule.source, rule.pattern, rule.becomes) for rule in PROPERTY_RULES)
    return f"{PROPERTIES_HEAD}\n" + table(("source", "property", "in the target"), rows)


PAGES = {
    "cli.md": cli_page,
    "codes.md": codes_page,
    "refused.md": refused_page,
    "types.md": types_page,
    "transforms.md": transforms_page,
    "features.md": features_page,
    "deletes.md": deletes_page,
    "properties.md": properties_page,
}


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
