"""Parquet files: footers, reading, writing and the metrics of what was written."""
