"""Variants: binary encoding, metadata and shredding."""
