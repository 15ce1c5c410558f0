-- Columns added, dropped, re-added, reordered, promoted; nested too. Nothing is renamed.
CREATE TABLE {table} (id INT, a STRING, b INT, f FLOAT, d DECIMAL(5,2), s STRUCT<x: INT>) USING iceberg;
INSERT INTO {table} VALUES (1, 'old', 10, 1.5, 9.99, named_struct('x', 1)), (2, NULL, NULL, NULL, NULL, NULL);
ALTER TABLE {table} DROP COLUMN b;
ALTER TABLE {table} ADD COLUMN c DATE AFTER id;
ALTER TABLE {table} ADD COLUMN s.y STRING;
ALTER TABLE {table} ALTER COLUMN id TYPE BIGINT;
ALTER TABLE {table} ALTER COLUMN f TYPE DOUBLE;
ALTER TABLE {table} ALTER COLUMN d TYPE DECIMAL(12,2);
INSERT INTO {table} VALUES (9223372036854775807, DATE'2024-01-01', 'new', 1e300, 9999999999.99, named_struct('x', 3, 'y', 'three'));
