"""Attempts remember how far their run was kept: what the next one takes is measured from there."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Zero for attempts before: jobs that go on with one are measured as if it had kept nothing."""
    op.add_column("attempts", sa.Column("kept_step", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("attempts", sa.Column("kept_seconds", sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Forget it."""
    for name in ("kept_step", "kept_seconds"):
        op.drop_column("attempts", name)
