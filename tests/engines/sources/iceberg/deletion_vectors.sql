-- Format version 3, deletes by deletion vectors, row lineage.
CREATE TABLE {table} (id INT, v STRING, p INT) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read');
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(900);
DELETE FROM {table} WHERE id % 10 = 3;
DELETE FROM {table} WHERE id % 10 = 4;
UPDATE {table} SET v = 'updated' WHERE id BETWEEN 100 AND 120;
