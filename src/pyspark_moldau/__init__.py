"""Spark looks for modules of this kind of name and registers their ``DefaultSource`` by itself."""

from moldau.spark.source import MoldauSource as DefaultSource

__all__ = ["DefaultSource"]
