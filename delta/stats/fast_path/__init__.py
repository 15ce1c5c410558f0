"""Statistics of logs whose lines are laid out alike, read from their places in the text."""
