"""Sinks into tables of lakes: Delta and Iceberg."""
