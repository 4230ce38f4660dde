"""Connectors with Kafka Connect's interface: its data model, converters, transforms and configuration.

Invariant: nothing here imports Spark; a worker that runs Spark queries does that below ``connectors``.
"""
