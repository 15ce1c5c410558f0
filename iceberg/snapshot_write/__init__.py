"""Snapshots being written: which manifests they have, their summary, and their row lineage."""
