"""Reading a Delta table for any verb."""
