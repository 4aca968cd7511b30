"""Runs migrations with Alembic, as `upgrade.upgrade` asks for."""

from alembic import context

asked = context.config.attributes
context.configure(
    connection=asked["connection"],
    version_table=asked["version_table"],
    render_as_batch=True,
)
context.run_migrations()
