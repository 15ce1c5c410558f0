-- Types widened in place that every Spark with type widening knows: byte and short to int.
CREATE TABLE {table} (id INT, by BYTE, sh SHORT, p SHORT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.enableTypeWidening' = 'true');
INSERT INTO {table} VALUES (1, 127Y, 32767S, 1S), (2, -128Y, -32768S, NULL), (3, NULL, NULL, 2S);
ALTER TABLE {table} ALTER COLUMN by TYPE INT;
ALTER TABLE {table} ALTER COLUMN sh TYPE INT;
ALTER TABLE {table} ALTER COLUMN p TYPE INT;
INSERT INTO {table} VALUES (4, 2147483647, -2147483648, 70000), (5, 1, 1, 1);
