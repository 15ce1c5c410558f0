-- MERGE, UPDATE and DELETE that rewrite files; overwrite of a partition.
CREATE TABLE {table} (id INT, v STRING, p INT) USING iceberg PARTITIONED BY (p);
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(60);
DELETE FROM {table} WHERE id % 7 = 0;
UPDATE {table} SET v = 'updated' WHERE id BETWEEN 10 AND 20;
INSERT OVERWRITE {table} PARTITION (p = 2) SELECT CAST(id AS INT), 'overwritten' FROM range(200, 205);
