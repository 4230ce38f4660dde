-- Each event once, by its id, when the ten minutes are over that it came in: examples/streams/deduplication.py in SQL,
-- which lets the first one pass at once.
CREATE STREAM events (id STRING KEY, what STRING)
  WITH (KAFKA_TOPIC='events', VALUE_FORMAT='KAFKA', PARTITIONS=4);

CREATE TABLE events_once WITH (KAFKA_TOPIC='events-once') AS
  SELECT id, EARLIEST_BY_OFFSET(what) AS what
  FROM events WINDOW TUMBLING (SIZE 10 MINUTES, GRACE PERIOD 0 SECONDS)
  GROUP BY id
  EMIT FINAL;
