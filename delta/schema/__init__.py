"""Schema Serialization Format, Column Mapping, Type Widening and Partition Value Serialization."""
