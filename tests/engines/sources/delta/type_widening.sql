-- Types widened in place: those that Iceberg promotes too.
-- stops spark-3.5: ALTER TABLE CHANGE COLUMN is not supported for changing column i from INT to BIGINT
CREATE TABLE {table} (id INT, by BYTE, i INT, f FLOAT, d DECIMAL(5,2)) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true');
INSERT INTO {table} VALUES (1, 100Y, 2147483647, 1.5, 999.99), (2, NULL, NULL, NULL, NULL);
ALTER TABLE {table} ALTER COLUMN by TYPE INT;
ALTER TABLE {table} ALTER COLUMN i TYPE BIGINT;
ALTER TABLE {table} ALTER COLUMN f TYPE DOUBLE;
ALTER TABLE {table} ALTER COLUMN d TYPE DECIMAL(12,2);
INSERT INTO {table} VALUES (3, 100000, 9223372036854775807, 1e300, 9999999999.99);
