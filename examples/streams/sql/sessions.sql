-- Visits, sent once, when they are over: examples/streams/sessions.py in SQL.
CREATE STREAM page_views (user STRING KEY, page STRING)
  WITH (KAFKA_TOPIC='page-views', VALUE_FORMAT='KAFKA', PARTITIONS=4);

CREATE TABLE visits WITH (KAFKA_TOPIC='visits-over', VALUE_FORMAT='JSON') AS
  SELECT user, COLLECT_LIST(page) AS pages
  FROM page_views WINDOW SESSION (30 MINUTES, GRACE PERIOD 1 MINUTE)
  GROUP BY user
  EMIT FINAL;
