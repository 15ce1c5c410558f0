"""What every verb reads from an Iceberg table."""
