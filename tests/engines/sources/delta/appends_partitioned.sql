-- Three appends to a table partitioned by a string with the values that break paths.
CREATE TABLE {table} (id BIGINT NOT NULL, name STRING COMMENT 'who', amount DECIMAL(12,2), day STRING) USING delta PARTITIONED BY (day);
INSERT INTO {table} VALUES (1, 'a', 1.50, 'plain'), (2, NULL, -0.01, 'with space'), (3, 'c', NULL, '50%');
INSERT INTO {table} VALUES (4, 'd', 9999999999.99, 'a/b'), (5, 'e', 0.00, NULL), (6, 'f', 2.00, 'grüße=ü');
INSERT INTO {table} SELECT id, concat('n', id), CAST(id AS DECIMAL(12,2)) / 4, 'bulk' FROM range(100, 1100);
