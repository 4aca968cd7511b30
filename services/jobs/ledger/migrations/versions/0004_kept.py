"""Attempts record the last checkpoint of their run, from which the next attempt's time is measured."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Sets zero for earlier attempts: jobs that continue one are measured as if it had saved nothing."""
    op.add_column("attempts", sa.Column("kept_step", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("kept_seconds", sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Removes it."""
    for name in ("kept_step", "kept_seconds"):
        op.drop_column("attempts", name)
