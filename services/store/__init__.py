"""A database by its address, sqlite or PostgreSQL, for what services keep: the ledger of jobs, API keys."""
