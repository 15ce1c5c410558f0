"""Manifests and Manifest Lists: data files with their metrics, and the files that list them."""
