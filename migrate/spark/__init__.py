"""The same jobs on a Spark cluster: one task does over a part of the files what the local engine does over all of them.

The functions stand in their modules (``deltaberg.migrate.spark.conversion.convert``) and take a SparkSession.
"""

from deltaberg.migrate.spark.conversion import convert

__all__ = ["convert"]
