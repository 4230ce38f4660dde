"""Three brokers of Apache Kafka beside three of Moldau: how they start, and what is measured with them."""
