-- Averages of sensors whose readings come out of order: examples/streams/sensors.py in SQL.
CREATE STREAM readings (sensor STRING KEY, at BIGINT, celsius DOUBLE)
  WITH (KAFKA_TOPIC='readings', VALUE_FORMAT='JSON', TIMESTAMP='at', PARTITIONS=4);

CREATE TABLE averages WITH (KAFKA_TOPIC='averages') AS
  SELECT sensor, AVG(celsius) AS celsius
  FROM readings WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS)
  WHERE celsius IS NOT NULL
  GROUP BY sensor
  EMIT FINAL;
