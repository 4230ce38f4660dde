"""Tasks that run: the way of a record, errors and dead letters, the bodies of sources and sinks."""
