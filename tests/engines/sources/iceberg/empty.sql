-- A table without a snapshot.
CREATE TABLE {table} (id INT, v STRING) USING iceberg PARTITIONED BY (v);
