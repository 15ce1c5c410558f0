-- V2 checkpoints, row tracking, deletion vectors and clustering together.
CREATE TABLE {table} (id INT, v STRING) USING delta CLUSTER BY (id) TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '2');
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id) FROM range(50);
UPDATE {table} SET v = 'updated' WHERE id = 7;
DELETE FROM {table} WHERE id > 40;
OPTIMIZE {table};
INSERT INTO {table} VALUES (100, 'last');
