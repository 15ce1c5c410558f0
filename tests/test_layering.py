"""The layers hold: imports point one way, ``translate`` does no IO, only storage opens files, PySpark stays in ``migrate``."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A layer and what of deltaberg it may import (besides itself). Everything not named here is the public layer, which may import all.
FOUNDATION = {"errors", "redaction", "moment", "storage", "bitmap", "datafile", "__version__"}
MAY_IMPORT = {
    "redaction": set(),
    "errors": {"redaction"},
    "moment": {"errors"},
    "storage": {"errors", "redaction"},
    "bitmap": {"errors"},
    "datafile": {"errors", "redaction", "storage", "bitmap"},
    "iceberg": FOUNDATION,
    "delta": FOUNDATION,
    "translate": FOUNDATION - {"storage"} | {"iceberg", "delta"},
    "migrate": FOUNDATION | {"iceberg", "delta", "translate"},
}
# Modules that touch files, the network or the clock: nothing of them in the pure layer.
IO_MODULES = {"obstore", "requests", "socket", "urllib.request", "shutil", "tempfile", "subprocess", "time", "random"}
OPENERS = {
    ("pyarrow", "OSFile"),
    ("pyarrow", "memory_map"),
    ("pyarrow", "input_stream"),
    ("pyarrow", "output_stream"),
    ("os", "open"),
    ("os", "remove"),
    ("os", "unlink"),
    ("os", "listdir"),
    ("os", "scandir"),
    ("io", "open"),
}
SOURCES = sorted(
    path
    for folder in ("deltaberg", "iceberg", "delta", "translate", "migrate")
    for path in (ROOT / folder).rglob("*.py")
)


def layer_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if parts[0] != "deltaberg" else parts[1].removesuffix(".py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call: what is called and what its first argument is, as far as they are dotted names."""

    line: int
    name: str
    first: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Caught:
    """An ``except``; ``again``: its last statement raises what was caught."""

    line: int
    what: str
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """What the tests here ask of a module.

    imports: names of modules. pyspark: of every import of PySpark, whether it waits for a call or a type checker.
    """

    lines: int
    imports: tuple[str, ...]
    calls: tuple[Called, ...]
    excepts: tuple[Caught, ...]
    pyspark: tuple[bool, ...]


@functools.cache
def module(path: Path) -> Module:
    """One parse for all tests; the trees themselves would take much memory."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(path))
    nodes = list(ast.walk(tree))
    spark = [
        node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) and "pyspark" in ast.unparse(node)
    ]
    guarded = {child for node in nodes if spark and is_guard(node) for child in ast.walk(node)}
    return Module(
        lines=len(text.splitlines()),
        imports=tuple(imported_modules(nodes)),
        calls=tuple(
            Called(line=node.lineno, name=dotted(node.func), first=dotted(node.args[0]) if node.args else "")
            for node in nodes
            if isinstance(node, ast.Call)
        ),
        excepts=tuple(
            Caught(
                line=node.lineno,
                what="" if node.type is None else ast.unparse(node.type),
                again=isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None,
            )
            for node in nodes
            if isinstance(node, ast.ExceptHandler)
        ),
        pyspark=tuple(node in guarded for node in spark),
    )


def is_guard(node: ast.AST) -> bool:
    """What stands inside does not run when the module is imported."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or (
        isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    )


def imported_modules(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            name = node.module or ""
            yield name
            # `from deltaberg import iceberg` names the layer in the alias.
            yield from (f"{name}.{alias.name}" for alias in node.names if name == "deltaberg")


def dotted(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
    return ""


def names(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_imports_point_one_way(path: Path) -> None:
    layer = layer_of(path)
    if layer not in MAY_IMPORT:
        return
    seen = {name.split(".")[1] for name in module(path).imports if name.startswith("deltaberg.")}
    forbidden = seen - MAY_IMPORT[layer] - {layer}
    assert not forbidden, (
        f"{names(path)} is of layer {layer} and must not import deltaberg.{', deltaberg.'.join(sorted(forbidden))}"
    )


@pytest.mark.parametrize("path", [p for p in SOURCES if layer_of(p) == "translate"], ids=names)
def test_translate_does_no_io(path: Path) -> None:
    touched = {name for name in module(path).imports if name in IO_MODULES or name.startswith("pyarrow.parquet")}
    assert not touched, f"{names(path)} imports {sorted(touched)}"


@pytest.mark.parametrize("path", [p for p in SOURCES if layer_of(p) != "storage"], ids=names)
def test_only_storage_opens_files(path: Path) -> None:
    aliases = {"pa": "pyarrow"}
    offences = []
    for call in module(path).calls:
        if call.first == "os.devnull":
            continue
        owner, _, function = call.name.rpartition(".")
        if call.name == "open" or (aliases.get(owner, owner), function) in OPENERS:
            offences.append(f"line {call.line}: {call.name}")
        if function in {"read_text", "read_bytes", "write_text", "write_bytes"}:
            offences.append(f"line {call.line}: {call.name}")
    assert not offences, f"{names(path)} opens files itself: {offences}"


@pytest.mark.parametrize("path", [p for p in SOURCES if layer_of(p) != "storage"], ids=names)
def test_only_storage_knows_the_store_library(path: Path) -> None:
    assert not [name for name in module(path).imports if name.split(".")[0] == "obstore"]


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_pyspark_is_imported_only_by_jobs_and_only_when_they_run(path: Path) -> None:
    spark = module(path).pyspark
    if layer_of(path) != "migrate":
        assert not spark
        return
    assert all(spark), f"{names(path)} imports pyspark when it is imported itself"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.name == "__init__.py"], ids=names)
def test_a_package_file_holds_docstring_imports_and_exports_only(path: Path) -> None:
    if path.parent in {ROOT / "deltaberg", ROOT / "delta", ROOT / "iceberg"}:
        return  # their exports are lazy: see test_public_api and test_cores_page
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        is_docstring = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        is_exports = isinstance(node, ast.Assign) and [dotted(t) for t in node.targets] == ["__all__"]
        assert is_docstring or is_exports or isinstance(node, (ast.Import, ast.ImportFrom)), (
            f"{names(path)} line {node.lineno}"
        )


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_no_wide_except(path: Path) -> None:
    """``except BaseException`` may clean up, when it raises again; it may never swallow."""
    for each in module(path).excepts:
        assert each.what not in {"", "Exception", "BaseException"} or each.again, f"{names(path)} line {each.line}"


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_no_drawers_and_no_long_modules(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
    assert module(path).lines < 600
