"""A gateway between Apache Iceberg and Delta Lake: one set of data files, two sets of metadata."""

__version__ = "0.1.0"
