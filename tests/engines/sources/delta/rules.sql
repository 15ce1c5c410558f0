-- Data under rules that Iceberg cannot enforce: CHECK, generated, identity, default, change data feed.
-- stops spark-3.5: Syntax error at or near 'IDENTITY'
CREATE TABLE {table} (id BIGINT GENERATED ALWAYS AS IDENTITY, ts TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), v INT DEFAULT 42) USING delta PARTITIONED BY (day) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.feature.allowColumnDefaults' = 'supported');
ALTER TABLE {table} ADD CONSTRAINT positive CHECK (v > 0);
INSERT INTO {table} (ts, v) VALUES (TIMESTAMP'2024-01-01 10:00:00', 1), (TIMESTAMP'2024-01-02 11:00:00', 2);
INSERT INTO {table} (ts) VALUES (TIMESTAMP'2024-01-03 12:00:00');
UPDATE {table} SET v = 7 WHERE v = 1;
