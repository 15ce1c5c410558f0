"""One Spark session with both connectors for the whole run: the reference implementation of both formats judges.

A generation is one line of generations.json; ``make test-engines GENERATION=spark-3.5`` makes an environment for another than
the first and runs these tests in it. Its PySpark must be the installed one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """Versions that are released to work together: PySpark and the Maven coordinates of both connectors.

    conf: settings that this Spark asks a user to choose, as the later ones have them.
    """

    name: str
    pyspark: str
    iceberg: str
    delta: str
    conf: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """How a failure names the engine."""
        connectors = (" ".join(each.split(":")[1:]) for each in (self.iceberg, self.delta))
        return f"Spark {self.pyspark} with {' and '.join(connectors)}"


GENERATIONS = tuple(
    Generation(**line) for line in json.loads((Path(__file__).parent / "generations.json").read_text(encoding="utf-8"))
)
CATALOGUE = Path(__file__).resolve().parents[1] / "exceptions.json"
# Thousands of tiny jobs: compile quickly, plan once, and start no more tasks than there is work. VACUUM alone starts
# 10,000 tasks otherwise. What is read and written stays the same.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC"
SMALL_JOBS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test here needs Spark."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engines)


@pytest.fixture(scope="session")
def generations() -> tuple[Generation, ...]:
    """All of them; the first is the one of every ordinary run."""
    return GENERATIONS


@pytest.fixture(scope="session")
def generation() -> Generation:
    wanted = os.environ.get("DELTABERG_ENGINES") or GENERATIONS[0].name
    return next(generation for generation in GENERATIONS if generation.name == wanted)


@pytest.fixture(scope="session")
def limits(generation: Generation) -> Mapping[str, str]:
    """What this generation's Spark cannot do, with words of its message; a test must see it stop with them."""
    found: dict[str, str] = json.loads(CATALOGUE.read_text(encoding="utf-8"))["engines"].get(generation.name, {})
    return found


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the Iceberg catalog ``ice``: the table ``ice.a.b`` is the folder ``a/b`` in it."""
    return tmp_path_factory.mktemp("warehouse")


def _end_session_without_connectors() -> None:
    """The session of ``tests/migrate/spark``, where it ran in this process: a virtual machine has the classes it began with."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        return
    session.stop()
    gateway = SparkContext._gateway
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="session")
def spark(
    java: None, generation: Generation, warehouse: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The session: ``spark_catalog`` is Delta's, ``ice`` an Iceberg hadoop catalog, ``registered`` one that holds
    tables given by their metadata file."""
    import pyspark
    from pyspark.sql import SparkSession

    if pyspark.__version__ != generation.pyspark:
        pytest.fail(f"{generation.name} needs pyspark {generation.pyspark}, and {pyspark.__version__} is installed")
    _end_session_without_connectors()
    scratch = tmp_path_factory.mktemp("spark")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    java_options = f"{JAVA_OPTIONS} -Dderby.system.home={scratch} -Dderby.stream.error.file={scratch}/derby.log"
    extensions = [
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "io.delta.sql.DeltaSparkSessionExtension",
    ]
    if generation.name == "spark-3.5":
        # The first one's rules see an UPDATE first, and Iceberg's rules of this generation fail on Delta's tables.
        extensions.reverse()
    builder = (
        SparkSession.builder.master("local[2,4]")
        .appName("deltaberg tests")
        .config("spark.jars.packages", f"{generation.iceberg},{generation.delta}")
        .config("spark.sql.extensions", ",".join(extensions))
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
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    for key, value in {**SMALL_JOBS, **generation.conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def run(spark: Any, generation: Generation, warehouse: Path) -> Callable[..., Any]:
    """``run(statement, statement, ...)``: the last one's frame; a failure names the engine, the statement and the place."""

    def execute(*statements: str) -> Any:
        frame = None
        for statement in statements:
            try:
                frame = spark.sql(statement)
            except Exception as error:
                raise AssertionError(f"{generation} cannot run {statement!r} (ice is {warehouse}): {error}") from error
        return frame

    return execute


@pytest.fixture(scope="session")
def arrow() -> Callable[[Any], pa.Table]:
    """The rows of a frame as Arrow; what holds a variant comes as JSON text."""
    return frame_to_arrow


def frame_to_arrow(frame: Any) -> pa.Table:
    if any("variant" in field.dataType.simpleString() for field in frame.schema.fields):
        frame = frame.selectExpr(
            *(f"{without_variants(f.dataType, f'`{f.name}`')} AS `{f.name}`" for f in frame.schema.fields)
        )
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    batches = frame._collect_as_arrow()
    if batches:
        return pa.Table.from_batches(batches)
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema).empty_table()


def without_variants(kind: Any, value: str, depth: int = 0) -> str:
    """SQL for a value of a type, with every variant in it, and every struct that holds one, as JSON text."""
    if "variant" not in kind.simpleString():
        return value
    name = f"v{depth}"
    match kind.typeName():
        case "array":
            return f"transform({value}, {name} -> {without_variants(kind.elementType, name, depth + 1)})"
        case "map":
            return (
                f"transform_values({value}, (k{depth}, {name}) -> {without_variants(kind.valueType, name, depth + 1)})"
            )
    return f"to_json({value})"


@pytest.fixture(scope="session")
def query(run: Callable[..., Any], generation: Generation, warehouse: Path) -> Callable[[str], pa.Table]:
    """Run SQL and give the rows as Arrow."""

    def read(sql: str) -> pa.Table:
        frame = run(sql)
        try:
            return frame_to_arrow(frame)
        except Exception as error:
            raise AssertionError(f"{generation} cannot answer {sql!r} (ice is {warehouse}): {error}") from error

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTable:
    """A table that Spark made from one file of ``sources/``; shared by all tests, so never written to.

    sql: how Spark calls it. refused: what the message of a refused conversion must hold; None when it must succeed.
    not_made: with which words this generation's Spark said that it cannot make the table; None when it is there.
    """

    name: str
    sql: str
    folder: Path
    refused: str | None
    not_made: str | None


SOURCES = Path(__file__).parent / "sources"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``delta_script``, ``iceberg_script``: every file of ``sources/delta`` and ``sources/iceberg``."""
    for kind in ("delta", "iceberg"):
        if f"{kind}_script" in metafunc.fixturenames:
            scripts = sorted((SOURCES / kind).glob("*.sql"))
            metafunc.parametrize(f"{kind}_script", scripts, ids=lambda path: path.stem)


def make_table(run: Callable[..., Any], script: Path, sql: str, folder: Path, generation: Generation) -> SparkTable:
    """Run the statements of one file, one a line.

    A line ``-- refused: WORDS`` is about the conversion; ``-- stops NAME: WORDS`` says that the generation NAME cannot make
    the table: then one statement must fail with these words.
    """
    refused = not_made = None
    statements = []
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("-- refused:"):
            refused = line.removeprefix("-- refused:").strip()
        elif line.startswith(f"-- stops {generation.name}:"):
            not_made = line.partition(":")[2].strip()
        elif line and not line.startswith("--"):
            statements.append(line.rstrip(";").format(table=sql))
    if not_made is None:
        run(*statements)
    else:
        with pytest.raises(AssertionError, match=re.escape(not_made)):
            run(*statements)
    return SparkTable(name=script.stem, sql=sql, folder=folder, refused=refused, not_made=not_made)


@pytest.fixture(scope="session")
def delta_table(
    run: Any, generation: Generation, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Path], SparkTable]:
    """The Delta table of a script, made when it is first asked for."""
    root = tmp_path_factory.mktemp("delta")
    made: dict[Path, SparkTable] = {}

    def make(script: Path) -> SparkTable:
        if script not in made:
            folder = root / script.stem
            made[script] = make_table(run, script, f"delta.`{folder}`", folder, generation)
        return made[script]

    return make


@pytest.fixture(scope="session")
def iceberg_table(run: Any, generation: Generation, warehouse: Path) -> Callable[[Path], SparkTable]:
    """The Iceberg table of a script, made when it is first asked for."""
    made: dict[Path, SparkTable] = {}

    def make(script: Path) -> SparkTable:
        if script not in made:
            folder = warehouse / "source" / script.stem
            made[script] = make_table(run, script, f"ice.source.{script.stem}", folder, generation)
        return made[script]

    return make
