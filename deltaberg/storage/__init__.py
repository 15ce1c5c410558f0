"""Files by location, local or in any object store."""
