"""The way from this broker to the others: connections, their security, who is dead, and the controller."""
