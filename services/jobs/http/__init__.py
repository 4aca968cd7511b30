"""The HTTP server of the job service: who asks, and streams."""
