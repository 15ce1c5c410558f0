"""Scan Planning and Column Projection: the rows of a snapshot."""
