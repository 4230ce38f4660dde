"""SQL over topics: statements in ksqlDB's words, run by the engine of moldau.streams (docs/sql.md)."""
