"""Tables of Cassandra as a sink, with the settings of DataStax's connector."""
