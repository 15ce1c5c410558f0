"""Data files that both formats share: Parquet read by field id or by name, exactly."""
