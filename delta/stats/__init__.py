"""Per-file Statistics."""
