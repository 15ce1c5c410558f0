"""The examples of the page about the cores run and print what they say."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from deltaberg import delta, iceberg

PAGE = Path(__file__).parents[2] / "docs" / "cores.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(3), ids=["delta", "iceberg", "evolution"])
def test_an_example_prints_what_it_says(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An example needs nothing but the tables of those before it."""
    assert len(EXAMPLES) == 3
    monkeypatch.chdir(tmp_path)
    for before in EXAMPLES[:number]:
        exec(compile(before, str(PAGE), "exec"), {})
    capsys.readouterr()
    exec(compile(EXAMPLES[number], str(PAGE), "exec"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", EXAMPLES[number])


@pytest.mark.parametrize("core", [delta, iceberg], ids=lambda core: core.__name__)
def test_every_export_of_a_core_can_be_had(core: ModuleType) -> None:
    assert core.__all__ == sorted(core.__all__)
    folder = Path(str(core.__file__)).parent
    for name in core.__all__:
        assert callable(getattr(core, name))
        assert name in dir(core)
        assert not (folder / f"{name}.py").exists(), f"importing the module {name} would hide the export"
    assert not hasattr(core, "transmogrify")
    assert set(core._HOMES) == set(core.__all__)
