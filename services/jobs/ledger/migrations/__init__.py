"""The ledger's Alembic migrations."""
