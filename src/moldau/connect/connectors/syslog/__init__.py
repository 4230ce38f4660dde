"""Messages of syslog, as devices and programs send them over the network."""
