"""Avro container files, read and written by columns (Appendix A, "Avro")."""
