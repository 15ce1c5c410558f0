-- Partitioned by every transform, nulls included.
CREATE TABLE {table} (id INT, ts TIMESTAMP, d DATE, s STRING, n BIGINT) USING iceberg PARTITIONED BY (bucket(4, n), days(ts), months(d), truncate(2, s));
INSERT INTO {table} VALUES (1, TIMESTAMP'2024-02-29 23:59:59.999999', DATE'2024-02-29', 'abc', 10), (2, NULL, NULL, NULL, NULL), (3, TIMESTAMP'1969-12-31 23:00:00', DATE'1969-12-31', 'äöü', -10);
INSERT INTO {table} SELECT CAST(id AS INT), TIMESTAMP'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, CAST(id AS INT)), DATE'2024-01-01', concat('s', id), id FROM range(20, 60);
