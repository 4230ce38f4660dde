"""A worker: runs connectors and their tasks, and answers Kafka Connect's REST."""
