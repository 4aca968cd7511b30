"""Runs the migrations with Alembic, on the connection of `database.upgrade`."""

from alembic import context

from services.jobs.ledger.tables import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
context.run_migrations()
