"""Definitions of settings in Kafka's way: types, defaults, validators, and the answers of a validation."""
