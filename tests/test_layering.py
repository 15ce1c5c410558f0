"""The house holds: imports point one way and never in a circle, ``translate`` does no IO, only storage opens files, PySpark stays in
``migrate``; files and folders stay small, and a class name means one thing.
"""

from __future__ import annotations

import ast
import functools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("deltaberg", "iceberg", "delta", "translate", "migrate")
LINES_A_FILE = 500
FILES_A_FOLDER = 30

# A layer and what of deltaberg it may import besides itself. A layer that is not listed fails.
FOUNDATION = {"errors", "redaction", "keywords", "timestamps", "storage", "bitmap", "datafile", "__version__"}
CONVERSIONS = FOUNDATION | {"iceberg", "delta", "translate", "migrate", "__init__"}
MAY_IMPORT: dict[str, set[str]] = {
    "redaction": set(),
    "keywords": {"errors", "redaction"},
    "errors": {"redaction"},
    "timestamps": {"errors"},
    "storage": {"errors", "redaction", "keywords"},
    "bitmap": {"errors"},
    "datafile": {"errors", "redaction", "storage", "bitmap"},
    "iceberg": FOUNDATION,
    "delta": FOUNDATION,
    "translate": FOUNDATION - {"storage"} | {"iceberg", "delta"},
    "migrate": FOUNDATION | {"iceberg", "delta", "translate", "__init__"},
    "row_json": FOUNDATION | {"iceberg", "delta"},
    "table_scan": CONVERSIONS | {"row_json"},
    "batch_file": CONVERSIONS | {"keywords"},
    "api": CONVERSIONS | {"table_scan", "row_json", "batch_file", "keywords"},
    "cli": CONVERSIONS | {"api", "table_scan", "row_json", "batch_file", "keywords"},
    "__init__": CONVERSIONS | {"api", "table_scan"},
    "__main__": {"cli"},
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
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def layer_of(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return parts[0] if parts[0] != "deltaberg" else parts[1].removesuffix(".py")


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "deltaberg" else ("deltaberg", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported name: ``module`` as written, or the submodule that is meant; of_types: only type checkers see it."""

    line: int
    module: str
    of_types: bool


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
    """What the tests here ask of a module. pyspark: of every import of PySpark, whether it waits for a call or a type checker."""

    lines: int
    imports: tuple[Import, ...]
    calls: tuple[Called, ...]
    excepts: tuple[Caught, ...]
    pyspark: tuple[bool, ...]
    classes: tuple[str, ...]


@functools.cache
def module(path: Path) -> Module:
    """One parse for all tests; the trees themselves would take much memory."""
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text, filename=str(path))))
    spark = [
        node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom)) and "pyspark" in ast.unparse(node)
    ]
    guarded = {child for node in nodes if spark and is_guard(node) for child in ast.walk(node)}
    return Module(
        lines=len(text.splitlines()),
        imports=tuple(imported(nodes)),
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
        classes=tuple(node.name for node in nodes if isinstance(node, ast.ClassDef)),
    )


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def is_guard(node: ast.AST) -> bool:
    """What stands inside does not run when the module is imported."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_type_checking(node)


def imported(nodes: list[ast.AST]) -> Iterator[Import]:
    for_types = {child for node in nodes if is_type_checking(node) for child in ast.walk(node)}
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            name = node.module or ""
            # `from deltaberg.iceberg import table` is an import of the module, `from deltaberg import __version__` of no layer.
            written = [(f"{name}.{alias.name}", name) for alias in node.names]
            names = [whole if whole in MODULES or part == "deltaberg" else part for whole, part in written]
        else:
            continue
        yield from (Import(line=node.lineno, module=name, of_types=node in for_types) for name in names)


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
    assert layer in MAY_IMPORT, f"{names(path)} is of layer {layer}, which MAY_IMPORT does not list"
    ours = {each.module for each in module(path).imports if each.module.split(".")[0] == "deltaberg"}
    seen = {name.split(".")[1] if "." in name else "__init__" for name in ours}
    forbidden = seen - MAY_IMPORT[layer] - {layer}
    assert not forbidden, (
        f"{names(path)} is of layer {layer} and must not import deltaberg.{', deltaberg.'.join(sorted(forbidden))}"
    )


def test_no_import_goes_in_a_circle() -> None:
    """Imports inside functions count; imports for type checkers do not, since nothing runs by them."""
    edges = {
        name: {each.module for each in module(path).imports if not each.of_types and each.module in MODULES} - {name}
        for name, path in MODULES.items()
    }
    while True:
        leaves = {name for name, goals in edges.items() if not goals}
        if not leaves:
            break
        edges = {name: goals - leaves for name, goals in edges.items() if name not in leaves}
    # What is left leads to a circle: walk until a module comes up again.
    if edges:
        walk = [min(edges)]
        while (step := min(edges[walk[-1]])) not in walk:
            walk.append(step)
        pytest.fail(" imports ".join([*walk[walk.index(step) :], step]))


@pytest.mark.parametrize("path", [p for p in SOURCES if layer_of(p) == "translate"], ids=names)
def test_translate_does_no_io(path: Path) -> None:
    touched = {
        each.module
        for each in module(path).imports
        if each.module in IO_MODULES or each.module.startswith("pyarrow.parquet")
    }
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
    assert not [each for each in module(path).imports if each.module.split(".")[0] == "obstore"]


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


def test_every_folder_of_sources_is_a_package() -> None:
    """A folder without ``__init__.py`` would be missing from the wheel."""
    assert not sorted({names(path.parent) for path in SOURCES if not (path.parent / "__init__.py").exists()})


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_no_wide_except(path: Path) -> None:
    """``except BaseException`` may clean up, when it raises again; it may never swallow."""
    for each in module(path).excepts:
        assert each.what not in {"", "Exception", "BaseException"} or each.again, f"{names(path)} line {each.line}"


@pytest.mark.parametrize("path", SOURCES, ids=names)
def test_no_drawers_and_no_long_modules(path: Path) -> None:
    assert path.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
    assert module(path).lines <= LINES_A_FILE


@pytest.mark.parametrize("folder", sorted({path.parent for path in SOURCES}), ids=names)
def test_a_folder_can_be_read_at_a_glance(folder: Path) -> None:
    assert len(list(folder.glob("*.py"))) <= FILES_A_FOLDER


@pytest.mark.parametrize("layer", FOLDERS)
def test_a_class_name_stands_once_in_a_layer(layer: str) -> None:
    homes = defaultdict(list)
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] == layer:
            for name in module(path).classes:
                homes[name].append(names(path))
    twice = {name: places for name, places in homes.items() if len(places) > 1}
    assert not twice
