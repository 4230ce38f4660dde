"""Changes of databases as records, in the envelope of Debezium."""
