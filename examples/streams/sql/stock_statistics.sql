-- Statistics of trades for each ticker: examples/streams/stock_statistics.py in SQL.
CREATE STREAM trades (ticker STRING KEY, price DOUBLE, size INT)
  WITH (KAFKA_TOPIC='stocks', VALUE_FORMAT='JSON', PARTITIONS=4);

CREATE TABLE stock_statistics WITH (KAFKA_TOPIC='stock-statistics') AS
  SELECT ticker, MIN(price) AS lowest, AVG(price) AS average
  FROM trades WINDOW HOPPING (SIZE 5 SECONDS, ADVANCE BY 1 SECOND, GRACE PERIOD 0 SECONDS)
  GROUP BY ticker
  EMIT CHANGES;
