"""One Spark session with both connectors for the whole run: the reference implementation of both formats judges.

A generation is one line of GENERATIONS. ``DELTABERG_ENGINES=spark-3.5 make test-engines`` chooses another than the first;
its PySpark must be the installed one (``make test-engines GENERATION=spark-3.5`` makes an environment that has it).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Versions that are released to work together: PySpark and the Maven coordinates of both connectors."""

    name: str
    pyspark: str
    iceberg: str
    delta: str


GENERATIONS = (
    Generation(
        name="spark-4.1",
        pyspark="4.1.",
        iceberg="org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        delta="io.delta:delta-spark_4.1_2.13:4.4.0",
    ),
    Generation(
        name="spark-3.5",
        pyspark="3.5.",
        iceberg="org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
        delta="io.delta:delta-spark_2.12:3.3.2",
    ),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs Spark, and all share the worker process that holds the session."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engines)
            item.add_marker(pytest.mark.xdist_group("engines"))


def without_java() -> str | None:
    """Why Spark cannot start here; None when it can."""
    java = Path(os.environ["JAVA_HOME"], "bin", "java") if os.environ.get("JAVA_HOME") else shutil.which("java")
    if java is None:
        return "Spark needs Java 17 or later, and no java is on the path"
    try:
        subprocess.run([java, "-version"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return f"Spark needs Java 17 or later, and {java} does not run: {error}"
    return None


@pytest.fixture(scope="session")
def generation() -> Generation:
    wanted = os.environ.get("DELTABERG_ENGINES", GENERATIONS[0].name)
    return next(generation for generation in GENERATIONS if generation.name == wanted)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the Iceberg catalog ``ice``: the table ``ice.a.b`` is the folder ``a/b`` in it."""
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="session")
def spark(generation: Generation, warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session: ``spark_catalog`` is Delta's, ``ice`` an Iceberg hadoop catalog, ``registered`` one that holds
    tables given by their metadata file."""
    reason = without_java()
    if reason:
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must judge with Spark: {reason}")
        pytest.skip(reason)
    import pyspark
    from pyspark.sql import SparkSession

    if not pyspark.__version__.startswith(generation.pyspark):
        pytest.fail(f"{generation.name} needs pyspark {generation.pyspark}x, and {pyspark.__version__} is installed")
    scratch = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    java_options = f"-Duser.timezone=UTC -Dderby.system.home={scratch} -Dderby.stream.error.file={scratch}/derby.log"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("deltaberg tests")
        .config("spark.jars.packages", f"{generation.iceberg},{generation.delta}")
        .config(
            "spark.sql.extensions",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension",
        )
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.ice.type", "hadoop")
        .config("spark.sql.catalog.ice.warehouse", str(warehouse))
        .config("spark.sql.catalog.ice.cache-enabled", "false")
        .config("spark.sql.catalog.registered", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.registered.catalog-impl", "org.apache.iceberg.inmemory.InMemoryCatalog")
        .config("spark.sql.catalog.registered.io-impl", "org.apache.iceberg.hadoop.HadoopFileIO")
        .config("spark.sql.catalog.registered.cache-enabled", "false")
        .config("spark.sql.warehouse.dir", str(scratch / "spark-warehouse"))
        .config("spark.local.dir", str(scratch))
        .config("spark.driver.extraJavaOptions", java_options)
        .config("spark.driver.memory", "3g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def query(spark: Any) -> Callable[[str], pa.Table]:
    """Run SQL and give the rows as Arrow; variants come as JSON text."""

    def run(sql: str) -> pa.Table:
        frame = spark.sql(sql)
        variants = [field.name for field in frame.schema.fields if field.dataType.typeName() == "variant"]
        for name in variants:
            frame = frame.selectExpr(
                *(
                    f"to_json(`{f.name}`) AS `{f.name}`" if f.name == name else f"`{f.name}`"
                    for f in frame.schema.fields
                )
            )
        return frame.toArrow() if hasattr(frame, "toArrow") else pa.Table.from_batches(frame._collect_as_arrow())

    return run


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table that Spark made from one file of ``sources/``; shared by all tests, so never written to.

    sql: how Spark calls it. refused: what the message of a refused conversion must hold; None when it must succeed.
    """

    name: str
    sql: str
    folder: Path
    refused: str | None


SOURCES = Path(__file__).parent / "sources"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``delta_script``, ``iceberg_script``: every file of ``sources/delta`` and ``sources/iceberg``."""
    for kind in ("delta", "iceberg"):
        if f"{kind}_script" in metafunc.fixturenames:
            scripts = sorted((SOURCES / kind).glob("*.sql"))
            metafunc.parametrize(f"{kind}_script", scripts, ids=lambda path: path.stem)


def run_script(spark: Any, script: Path, sql_name: str) -> str | None:
    """Run the statements of one file, one a line; gives what its ``-- refused:`` line says."""
    refused = None
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("-- refused:"):
            refused = line.removeprefix("-- refused:").strip()
        elif line and not line.startswith("--"):
            statement = line.rstrip(";").format(table=sql_name)
            try:
                spark.sql(statement)
            except Exception as error:
                raise AssertionError(
                    f"Spark {spark.version} cannot run {statement!r} of {script.name}: {error}"
                ) from error
    return refused


@pytest.fixture(scope="session")
def delta_table(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], SparkTable]:
    """The Delta table of a script, made when it is first asked for."""
    root = tmp_path_factory.mktemp("delta")
    made: dict[Path, SparkTable] = {}

    def make(script: Path) -> SparkTable:
        if script not in made:
            folder = root / script.stem
            sql = f"delta.`{folder}`"
            refused = run_script(spark, script, sql)
            made[script] = SparkTable(name=script.stem, sql=sql, folder=folder, refused=refused)
        return made[script]

    return make


@pytest.fixture(scope="session")
def iceberg_table(spark: Any, warehouse: Path) -> Callable[[Path], SparkTable]:
    """The Iceberg table of a script, made when it is first asked for."""
    made: dict[Path, SparkTable] = {}

    def make(script: Path) -> SparkTable:
        if script not in made:
            sql = f"ice.source.{script.stem}"
            refused = run_script(spark, script, sql)
            made[script] = SparkTable(
                name=script.stem, sql=sql, folder=warehouse / "source" / script.stem, refused=refused
            )
        return made[script]

    return make
