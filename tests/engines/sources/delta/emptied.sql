-- All rows gone again.
CREATE TABLE {table} (id INT, v STRING) USING delta;
INSERT INTO {table} VALUES (1, 'a'), (2, 'b');
DELETE FROM {table};
