"""Schemas and Data Types: fields and their ids, evolution, defaults and other single values."""
