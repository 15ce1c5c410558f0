"""Delete Formats and Scan Planning: which deletes reach a data file, and which rows they delete."""
