"""Jobs handed to a Ray cluster."""
