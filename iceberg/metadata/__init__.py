"""Table Metadata: the document, its snapshots and references, and how it changes."""
