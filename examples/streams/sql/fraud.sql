-- A card that pays in two countries at a time: examples/streams/fraud.py in SQL, by windows that do not slide.
CREATE STREAM payments (card STRING KEY, country STRING)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON', PARTITIONS=4);

CREATE TABLE alarms WITH (KAFKA_TOPIC='alarms') AS
  SELECT card, COLLECT_SET(country) AS countries
  FROM payments WINDOW HOPPING (SIZE 10 MINUTES, ADVANCE BY 1 MINUTE, GRACE PERIOD 1 MINUTE)
  GROUP BY card
  HAVING COUNT_DISTINCT(country) > 1
  EMIT CHANGES;
