-- An empty string as identity value, which Delta reads as null.
CREATE TABLE {table} (id INT, p STRING) USING iceberg PARTITIONED BY (p);
INSERT INTO {table} VALUES (1, ''), (2, NULL), (3, 'x');
