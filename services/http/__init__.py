"""What the HTTP servers have in common: their connections, and the socket at which they listen."""
