-- Renamed, dropped and re-added columns under column mapping; a nested rename; the partition column renamed.
CREATE TABLE {table} (id INT, a STRING, b INT, s STRUCT<x: INT, y: STRING>, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name');
INSERT INTO {table} VALUES (1, 'old', 10, named_struct('x', 1, 'y', 'one'), 'p1'), (2, 'old', 20, NULL, 'p2');
ALTER TABLE {table} RENAME COLUMN a TO c;
ALTER TABLE {table} RENAME COLUMN s.x TO xx;
ALTER TABLE {table} DROP COLUMN b;
ALTER TABLE {table} ADD COLUMN b STRING AFTER id;
ALTER TABLE {table} RENAME COLUMN p TO part;
INSERT INTO {table} VALUES (3, 'new b', 'new', named_struct('xx', 3, 'y', 'three'), 'p1');
