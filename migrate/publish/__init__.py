"""Many tables kept up to date: the configuration, who owns a table, the loop, and what can be seen of it."""
