-- A branch with its own commits and a tag; the main branch is what is converted.
CREATE TABLE {table} (id INT, v STRING) USING iceberg;
INSERT INTO {table} VALUES (1, 'main');
ALTER TABLE {table} CREATE TAG first;
ALTER TABLE {table} CREATE BRANCH audit;
INSERT INTO {table}.branch_audit VALUES (2, 'audit');
INSERT INTO {table} VALUES (3, 'main');
