"""``moldau sql-server``: statements over HTTP, on ksqlDB's paths and in its JSON."""
