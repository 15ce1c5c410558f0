"""Partitioning and Sorting: specs, transforms and sort orders."""
