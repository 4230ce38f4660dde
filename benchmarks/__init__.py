"""Apache Kafka and Moldau side by side: one file per claim. Never imported by the product."""
