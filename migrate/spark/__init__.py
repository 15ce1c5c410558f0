"""The same jobs on a Spark cluster: one task does over a part of the files what the local engine does over all of them."""
