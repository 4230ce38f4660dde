"""Redis: records as keys and values."""
