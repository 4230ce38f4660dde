"""Sinks that speak HTTP: any service that takes a POST, and Elasticsearch or OpenSearch."""
