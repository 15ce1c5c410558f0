"""The Delta Log Entries and Action Reconciliation: the log files of a version, and their actions."""
