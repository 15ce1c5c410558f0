"""The Delta Log Entries and Action Reconciliation: which files of the log make a version, and what they say."""
