-- Identity partitions with the values that break paths.
CREATE TABLE {table} (id BIGINT, day STRING, n INT) USING iceberg PARTITIONED BY (day, n);
INSERT INTO {table} VALUES (1, 'plain', 1), (2, 'with space', 2), (3, '50%', NULL), (4, 'a/b', -4), (5, NULL, 5), (6, 'grüße=ü', 6), (7, 'null', 7), (8, '..', 8), (9, '%20', 9);
