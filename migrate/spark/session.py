"""Find or start the Spark session that a job runs in, and say in one line what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from deltaberg.errors import EngineUnavailable
from deltaberg.redaction import redacted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_SPARK: Final = (3, 5)
_LOCAL_MASTER: Final = "local[*,4]"
"""All cores; a task that dies is tried four times, as on a cluster (Spark's own default for one machine is once)."""

LEAN_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a local JVM that only passes units to Python: it starts in half the processor time."""

_CONFIGURES_JAVA: Final = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "JDK_JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
)
_MESSAGE_LENGTH: Final = 300
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def spark_session(existing: SparkSession | None = None) -> SparkSession:
    """The session to use: the given one, the active one, else a new one as ``spark-defaults.conf`` or the environment say.

    Raises EngineUnavailable where PySpark, pandas or Java is missing or older than needed (Spark 3.5; Java 17 for
    Spark 4, Java 8 for 3.5).
    """
    sql = _pyspark()
    session: SparkSession | None = existing or sql.getActiveSession()
    if session is None:
        session = _start(sql)
    _require_spark(session.version)
    return session


def is_connect(session: SparkSession) -> bool:
    """Whether the session is a Spark Connect client, which has no SparkContext."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def parallelism(session: SparkSession) -> int:
    """How many tasks the cluster runs at a time, as far as it says."""
    if is_connect(session):
        return int(session.conf.get("spark.sql.shuffle.partitions", "2") or 2)
    return int(session.sparkContext.defaultParallelism)


def spark_errors() -> tuple[type[Exception], ...]:
    """The errors that a call of Spark raises: its own, those of the way to the JVM, and lost connections."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JError
    except ImportError:
        # A client of Spark Connect has no JVM beside it.
        return PySparkException, OSError
    return PySparkException, Py4JError, OSError


def reason(error: BaseException) -> str:
    """The one line of a Spark error that names its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if "Error:" in line or "Exception:" in line or "exited unexpectedly" in line]
    return redacted(telling[-1] if telling else lines[0] if lines else type(error).__name__)[:_MESSAGE_LENGTH]


def _pyspark() -> type[SparkSession]:
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise EngineUnavailable(
            "Cannot run the Spark engine: PySpark is not installed; pip install 'deltaberg[spark]'"
        ) from error
    _require_spark(pyspark.__version__)
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise EngineUnavailable(
            "Cannot run the Spark engine: pandas, which PySpark's Arrow exchange needs, is not installed; "
            "pip install 'deltaberg[spark]'"
        ) from error
    return SparkSession


def _require_spark(version: str) -> None:
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < OLDEST_SPARK:
        oldest = ".".join(map(str, OLDEST_SPARK))
        raise EngineUnavailable(
            f"Cannot run the Spark engine: Spark {version} is too old (expected {oldest} or later); "
            "pip install 'deltaberg[spark]'"
        )


def _start(sql: type[SparkSession]) -> SparkSession:
    """A new session. Everything that the environment or ``spark-defaults.conf`` says goes first."""
    builder = sql.builder.appName("deltaberg")
    if os.environ.get("SPARK_REMOTE"):
        return builder.getOrCreate()
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        _require_java()
        # The master that spark-submit takes when none is named.
        os.environ.setdefault("MASTER", _LOCAL_MASTER)
        # Executors on this machine get this interpreter and not the first of the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR")
        if not any(os.environ.get(name) for name in _CONFIGURES_JAVA):
            builder = builder.config("spark.driver.extraJavaOptions", LEAN_JAVA)
    return builder.getOrCreate()


def _require_java() -> None:
    import pyspark

    oldest = 17 if int(pyspark.__version__.split(".")[0]) >= 4 else 8
    wanted = f"Spark {pyspark.__version__} needs Java {oldest} or later; install it (for example openjdk-17-jre-headless) or set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if java is None:
        raise EngineUnavailable(f"Cannot run the Spark engine: no java is on the path; {wanted}")
    try:
        done = subprocess.run([java, "-version"], check=True, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineUnavailable(f"Cannot run the Spark engine: {java} does not run; {wanted}") from error
    found = _JAVA_VERSION.search(done.stderr + done.stdout)
    if found is not None and int(found.group(1)) < oldest:
        raise EngineUnavailable(f"Cannot run the Spark engine: {java} is Java {found.group(1)}; {wanted}")
