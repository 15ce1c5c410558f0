-- MERGE, UPDATE and DELETE by deletion vectors; one file loses all rows, several vectors share a file.
CREATE TABLE {table} (id INT, v STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true');
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(900);
INSERT INTO {table} SELECT CAST(id AS INT), concat('w', id), 7 FROM range(5000, 5010);
DELETE FROM {table} WHERE id % 10 = 3;
DELETE FROM {table} WHERE id % 10 = 4 OR id = 5003;
UPDATE {table} SET v = 'updated' WHERE id BETWEEN 100 AND 120;
MERGE INTO {table} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS v, CAST(id % 3 AS INT) AS p FROM range(880, 920)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
