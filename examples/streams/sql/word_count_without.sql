-- Counts words without some that say nothing: examples/streams/word_count_without.py in SQL.
CREATE STREAM lines (line STRING) WITH (KAFKA_TOPIC='wordcount-input', VALUE_FORMAT='KAFKA', PARTITIONS=4);

CREATE TABLE word_counts WITH (KAFKA_TOPIC='wordcount-output', VALUE_FORMAT='KAFKA') AS
  SELECT EXPLODE(FILTER(REGEXP_EXTRACT_ALL('\w+', LCASE(line)), w => w NOT IN ('the', 'a', 'and'))) AS word,
         COUNT(*) AS n
  FROM lines
  GROUP BY EXPLODE(FILTER(REGEXP_EXTRACT_ALL('\w+', LCASE(line)), w => w NOT IN ('the', 'a', 'and')))
  EMIT CHANGES;
