"""Documents, each translated within one request: a child process reads and writes it."""
