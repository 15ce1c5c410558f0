-- Columns added at the end, in the middle and inside a struct; order changed; a comment and NOT NULL dropped.
CREATE TABLE {table} (id INT NOT NULL, s STRUCT<a: INT>, z STRING) USING delta;
INSERT INTO {table} VALUES (1, named_struct('a', 1), 'one');
ALTER TABLE {table} ADD COLUMNS (n BIGINT COMMENT 'added', m DATE AFTER id);
ALTER TABLE {table} ADD COLUMNS (s.b STRING);
ALTER TABLE {table} ALTER COLUMN id DROP NOT NULL;
INSERT INTO {table} VALUES (2, DATE'2024-01-01', named_struct('a', 2, 'b', 'two'), 'two', 2), (NULL, NULL, NULL, NULL, NULL);
