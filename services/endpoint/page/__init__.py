"""The endpoint's page for people, at `/`."""
