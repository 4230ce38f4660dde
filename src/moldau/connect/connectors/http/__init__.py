"""Connectors that speak HTTP: sinks for any service that takes a POST and for Elasticsearch or OpenSearch,
and a receiver of POSTs."""
