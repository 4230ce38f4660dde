"""Tables of relational databases as sources and sinks, with the settings of the JDBC connectors."""
