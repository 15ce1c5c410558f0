"""Delta Lake, natively: the transaction log, checkpoints, deletion vectors, scans and commits."""
