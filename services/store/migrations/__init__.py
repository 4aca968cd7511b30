"""Alembic's environment for the tables of every service; each service has its versions beside its tables."""
