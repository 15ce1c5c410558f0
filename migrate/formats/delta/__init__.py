"""What every verb reads from a Delta table."""
