"""Records that are made up, for demos and load tests."""
