"""The shared parts of the HTTP servers: the middleware around all routes, and the socket at which they listen."""
