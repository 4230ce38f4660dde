"""Topics as files in a folder or an object store, and back into topics."""
