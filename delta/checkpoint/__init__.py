"""Checkpoints, the last-checkpoint file and Version Checksums."""
