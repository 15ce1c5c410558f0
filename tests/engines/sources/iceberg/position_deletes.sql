-- Format version 2, MERGE, UPDATE and DELETE on read; a compaction in between.
CREATE TABLE {table} (id INT, v STRING, p INT) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read');
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(900);
DELETE FROM {table} WHERE id % 10 = 3;
DELETE FROM {table} WHERE id % 10 = 4;
UPDATE {table} SET v = 'updated' WHERE id BETWEEN 100 AND 120;
MERGE INTO {table} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS v, CAST(id % 3 AS INT) AS p FROM range(880, 920)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
