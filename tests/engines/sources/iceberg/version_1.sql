-- Format version 1.
CREATE TABLE {table} (id INT, v STRING, p INT) USING iceberg PARTITIONED BY (p) TBLPROPERTIES ('format-version' = '1');
INSERT INTO {table} SELECT CAST(id AS INT), concat('v', id), CAST(id % 3 AS INT) FROM range(60);
DELETE FROM {table} WHERE p = 1;
