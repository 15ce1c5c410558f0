"""Reading a table for any verb, once for each format."""
