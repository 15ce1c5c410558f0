"""The same jobs on a Spark cluster: one task does over a part of the files what the local engine does over all of them.

Every function takes a SparkSession; the types of requests and results stand in their modules.
"""

from deltaberg.migrate.spark.conversion import convert
from deltaberg.migrate.spark.many_tables import convert_many
from deltaberg.migrate.spark.verification import verify

__all__ = ["convert", "convert_many", "verify"]
