"""The target's folder: what it holds already, where its files are, and how to undo what was written there."""
