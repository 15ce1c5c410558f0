"""Protocol Evolution: versions, table features, table properties and what they demand of a writer."""
