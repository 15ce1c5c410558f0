"""generations.json is the one place for versions: what the development environment installs is its first line."""

from __future__ import annotations

from importlib.metadata import requires
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def test_the_development_environment_has_the_first_generation(generations: Any) -> None:
    assert f'pyspark=={generations[0].pyspark}; extra == "dev"' in (requires("deltaberg") or ())


def test_connectors_are_built_for_their_spark(generations: Any) -> None:
    """Iceberg's artifact names Spark's version; both connectors are for one version of Scala, which PySpark's jars have."""
    for each in generations:
        series = ".".join(each.pyspark.split(".")[:2])
        assert each.name == f"spark-{series}"
        assert f"-{series}_" in each.iceberg
        assert each.iceberg.split(":")[1].rpartition("_")[2] == each.delta.split(":")[1].rpartition("_")[2]
    assert len({each.name for each in generations}) == len(generations)
