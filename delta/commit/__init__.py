"""Commits: what one is made of, how it becomes visible, and what it conflicts with."""
