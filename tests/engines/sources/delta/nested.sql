-- Structs, lists and maps inside each other, empty and null at every level.
CREATE TABLE {table} (id INT, s STRUCT<a: INT, b: STRUCT<c: STRING, d: ARRAY<INT>>>, l ARRAY<STRUCT<x: INT, y: STRING>>, m MAP<STRING, ARRAY<DOUBLE>>, mm MAP<INT, STRUCT<z: DATE>>) USING delta;
INSERT INTO {table} VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'x', 'd', array(1, NULL, 3))), array(named_struct('x', 1, 'y', 'p'), named_struct('x', NULL, 'y', NULL)), map('k', array(1.5D, NULL)), map(1, named_struct('z', DATE'2024-01-01')));
INSERT INTO {table} VALUES (2, NULL, NULL, NULL, NULL), (3, named_struct('a', NULL, 'b', NULL), array(), map(), map()), (4, named_struct('a', 4, 'b', named_struct('c', NULL, 'd', array())), array(NULL), map('e', NULL, 'f', array()), map(2, NULL));
