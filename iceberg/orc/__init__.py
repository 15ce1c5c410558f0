"""ORC files, as far as Iceberg needs them (Appendix A, "ORC")."""
