"""The shared parts of the HTTP servers: their connections, and the socket at which they listen."""
