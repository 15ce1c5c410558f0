"""Pure mapping between the two formats, both directions side by side; no IO."""
