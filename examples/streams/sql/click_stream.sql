-- Clicks with the profile of their user and the search before them: examples/streams/click_stream.py in SQL.
CREATE STREAM views (user STRING KEY, page STRING)
  WITH (KAFKA_TOPIC='clicks.pages.views', VALUE_FORMAT='JSON', PARTITIONS=4);
CREATE STREAM searches (user STRING KEY, terms STRING)
  WITH (KAFKA_TOPIC='clicks.search', VALUE_FORMAT='JSON', PARTITIONS=4);
CREATE TABLE profiles (user STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='clicks.user.profile', VALUE_FORMAT='JSON', PARTITIONS=4);

CREATE STREAM activity WITH (KAFKA_TOPIC='clicks.user.activity') AS
  SELECT views.user AS user, page, name, COALESCE(terms, '') AS search
  FROM views
  LEFT JOIN searches WITHIN (1 SECOND, 0 SECONDS) GRACE PERIOD 0 SECONDS ON views.user = searches.user
  LEFT JOIN profiles ON views.user = profiles.user
  EMIT CHANGES;
