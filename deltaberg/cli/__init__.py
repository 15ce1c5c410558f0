"""The deltaberg command."""
