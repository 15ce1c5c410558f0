"""An Iceberg snapshot, or an ancestry of them, becomes versions of a Delta table."""
