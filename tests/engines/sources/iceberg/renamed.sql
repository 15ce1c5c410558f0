-- Columns renamed after they were written: readers of Delta that match by name would see null.
-- refused: former-names
CREATE TABLE {table} (id INT, a STRING, s STRUCT<x: INT>) USING iceberg;
INSERT INTO {table} VALUES (1, 'old', named_struct('x', 1));
ALTER TABLE {table} RENAME COLUMN a TO b;
ALTER TABLE {table} RENAME COLUMN s.x TO y;
INSERT INTO {table} VALUES (2, 'new', named_struct('y', 2));
