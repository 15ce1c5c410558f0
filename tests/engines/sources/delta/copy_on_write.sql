-- MERGE, UPDATE and DELETE that rewrite files.
CREATE TABLE {table} (id INT, v STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'false');
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(60);
DELETE FROM {table} WHERE id % 7 = 0;
UPDATE {table} SET v = 'updated' WHERE id BETWEEN 10 AND 20;
MERGE INTO {table} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS v, CAST(id % 3 AS INT) AS p FROM range(50, 70)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
