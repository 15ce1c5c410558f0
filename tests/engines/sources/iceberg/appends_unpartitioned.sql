-- Two appends; required column, comments.
CREATE TABLE {table} (id BIGINT NOT NULL COMMENT 'key', name STRING, amount DECIMAL(12,2)) USING iceberg;
INSERT INTO {table} VALUES (1, 'a', 1.50), (2, NULL, -0.01), (3, 'c', NULL);
INSERT INTO {table} SELECT id, concat('n', id), CAST(id AS DECIMAL(12,2)) / 4 FROM range(100, 1100);
