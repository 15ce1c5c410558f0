-- Variant values of every kind.
-- stops spark-3.5: Unsupported data type "VARIANT"
CREATE TABLE {table} (id INT, v VARIANT) USING delta;
INSERT INTO {table} SELECT 1, parse_json('{{"a": 1, "b": [true, null, "x"], "c": {{"d": 1.5}}}}') UNION ALL SELECT 2, parse_json('"text"') UNION ALL SELECT 3, parse_json('null') UNION ALL SELECT 4, NULL UNION ALL SELECT 5, parse_json('12345678901234567890');
