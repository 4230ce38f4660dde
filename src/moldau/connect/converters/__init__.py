"""Converters: between Connect's values and the bytes of keys, values and headers in topics."""
