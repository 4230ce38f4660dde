"""Tables of HBase as a sink, through HBase's REST gateway."""
