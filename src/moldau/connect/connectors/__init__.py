"""Connectors that come with the worker, one folder for each system."""
