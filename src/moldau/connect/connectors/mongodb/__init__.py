"""Collections of MongoDB as sinks and sources, with the settings of MongoDB's own connector."""
