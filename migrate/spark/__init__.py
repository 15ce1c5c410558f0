"""Jobs on a Spark cluster: each task does for a part of the files what the local engine does for all of them.

Every function takes a SparkSession; the types of requests and results stand in their modules.
"""

from deltaberg.migrate.spark.api import convert, verify
from deltaberg.migrate.spark.batch import convert_many

__all__ = ["convert", "convert_many", "verify"]
