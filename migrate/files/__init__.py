"""Data files: what their footers show, and those that are rewritten."""
