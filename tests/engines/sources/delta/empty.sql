-- A table without a row or file.
CREATE TABLE {table} (id INT, v STRING) USING delta PARTITIONED BY (v);
