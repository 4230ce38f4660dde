-- Counts words: examples/streams/word_count.py in SQL. Run it with: moldau sql examples/streams/sql/word_count.sql
CREATE STREAM lines (line STRING) WITH (KAFKA_TOPIC='text-lines', VALUE_FORMAT='KAFKA', PARTITIONS=4);

CREATE TABLE word_counts WITH (KAFKA_TOPIC='word-counts', VALUE_FORMAT='KAFKA') AS
  SELECT EXPLODE(SPLIT(LCASE(line), ' ')) AS word, COUNT(*) AS n
  FROM lines
  GROUP BY EXPLODE(SPLIT(LCASE(line), ' '))
  EMIT CHANGES;
