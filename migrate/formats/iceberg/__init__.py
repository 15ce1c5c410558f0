"""Reading an Iceberg table for any verb."""
