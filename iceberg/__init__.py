"""Apache Iceberg, natively: table metadata, manifests, deletes, scans and commits."""
