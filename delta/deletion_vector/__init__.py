"""Deletion Vectors: descriptor, file format and inline encoding."""
