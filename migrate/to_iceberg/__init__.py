"""A Delta version, or a range of them, becomes snapshots of an Iceberg table."""
