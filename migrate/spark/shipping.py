"""Bring the package to executors that lack it, and report what else they lack."""

from __future__ import annotations

import importlib
import os
import tempfile
import zipfile
import zipimport
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import deltaberg
from deltaberg.errors import EngineUnavailable
from deltaberg.migrate.spark.session import is_connect, reason, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKAGES: Final = ("deltaberg", "deltaberg.iceberg", "deltaberg.delta", "deltaberg.translate", "deltaberg.migrate")
"""Packages that may lie in folders of their own (an editable install); all others lie inside one of these."""

NATIVE: Final = ("isal", "mmh3", "numpy", "obstore", "pyarrow", "pyroaring", "tzdata")
"""The packages that deltaberg imports and that no py-file can carry."""

_PROBE_COLUMNS: Final = "python string, version string, missing string"


def ship_package(session: SparkSession) -> None:
    """Make ``import deltaberg`` in the session's executors give the driver's version.

    A task checks first: nothing is sent where the package is installed, or was given with ``--py-files``. Raises
    EngineUnavailable where executors lack what cannot be sent, or still lack the package.
    """
    found = _probe(session)
    if found.missing:
        raise EngineUnavailable(
            f"Cannot run on these executors: their Python ({found.python}) lacks {', '.join(found.missing)}; install "
            "deltaberg[spark] there, or ship a packed environment with --archives (docs/spark.md)"
        )
    if found.version == deltaberg.__version__:
        return
    with tempfile.TemporaryDirectory(prefix="deltaberg-") as folder:
        archive = _archive(folder)
        if is_connect(session):
            session.addArtifacts(archive, pyfile=True)
        else:
            session.sparkContext.addPyFile(archive)
        found = _probe(session)
    if found.version != deltaberg.__version__:
        raise EngineUnavailable(
            f"Cannot run on these executors: deltaberg {deltaberg.__version__} was sent, and their Python ({found.python}) "
            f"imports {found.version or 'none'}; give the wheel with --py-files (docs/spark.md)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Executor:
    python: str
    version: str
    missing: tuple[str, ...]


def _probe(session: SparkSession) -> _Executor:
    look = _look(NATIVE, deltaberg.__version__)
    try:
        row = session.range(0, 1, 1, 1).mapInArrow(look, _PROBE_COLUMNS).collect()[0]
    except spark_errors() as error:
        raise EngineUnavailable(
            f"Cannot run Python on these executors: {reason(error)}; install deltaberg[spark] there, or ship a packed "
            "environment with --archives (docs/spark.md)"
        ) from error
    return _Executor(python=row[0], version=row[1], missing=tuple(each for each in row[2].split(",") if each))


def _look(native: tuple[str, ...], wanted: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The probe, which must not name anything of the package: executors may lack it."""

    def look(batches: Iterable[Any]) -> Iterator[Any]:
        import importlib
        import importlib.util
        import sys

        import pyarrow

        for _ in batches:
            missing = [name for name in native if importlib.util.find_spec(name) is None]
            try:
                version = importlib.import_module("deltaberg").__version__
            except ImportError:
                version = ""
            # A worker process serves several tasks: what it imported now must not hide what is sent next.
            stale = version != wanted
            for name in [each for each in sys.modules if stale and each.partition(".")[0] == "deltaberg"]:
                del sys.modules[name]
            columns = [[f"{sys.version.split()[0]} at {sys.executable}"], [version], [",".join(missing)]]
            yield pyarrow.RecordBatch.from_arrays(
                [pyarrow.array(column, pyarrow.string()) for column in columns], ["python", "version", "missing"]
            )

    return look


def _archive(folder: str) -> str:
    """A zip of the package as this process imported it: from a wheel, a checkout, or a zip."""
    path = os.path.join(folder, f"deltaberg-{deltaberg.__version__}.zip")
    loader = deltaberg.__spec__.loader if deltaberg.__spec__ is not None else None
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        if isinstance(loader, zipimport.zipimporter):
            with zipfile.ZipFile(loader.archive) as own:
                for name in own.namelist():
                    archive.writestr(name, own.read(name))
            return path
        written: set[str] = set()
        for package in PACKAGES:
            root = importlib.import_module(package).__path__[0]
            for directory, _, names in os.walk(root):
                for name in sorted(names):
                    inside = os.path.join(
                        package.replace(".", "/"), os.path.relpath(os.path.join(directory, name), root)
                    )
                    if name.endswith(".py") and inside not in written:
                        written.add(inside)
                        archive.write(os.path.join(directory, name), inside)
    return path
