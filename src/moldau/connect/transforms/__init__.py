"""Transforms and predicates of Kafka Connect, one file each: a record in, a record or nothing out."""
