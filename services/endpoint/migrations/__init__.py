"""The Alembic migrations of the endpoint's tables."""
