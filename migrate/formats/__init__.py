"""What every verb reads from a table, once for each format."""
