"""Whether two tables are equal: schema, files, counts, bounds and rows."""
