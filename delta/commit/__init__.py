"""Commits: their content, how they become visible, and their conflicts."""
