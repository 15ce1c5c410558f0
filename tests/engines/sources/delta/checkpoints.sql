-- Enough commits for classic checkpoints with removed files in between.
CREATE TABLE {table} (id INT, v STRING) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '3');
INSERT INTO {table} VALUES (1, 'a');
INSERT INTO {table} VALUES (2, 'b');
INSERT INTO {table} VALUES (3, 'c');
DELETE FROM {table} WHERE id = 2;
INSERT INTO {table} VALUES (4, 'd');
OPTIMIZE {table};
INSERT INTO {table} VALUES (5, 'e');
