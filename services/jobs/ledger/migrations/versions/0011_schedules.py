"""Schedules: commands that are submitted again and again."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "schedules",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("every", sa.String(100), nullable=False),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("words", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=True),
        sa.Column("job", sa.String(40), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=False),
        sqlite_autoincrement=True,  # an id is never used again: keys of jobs begin with it
    )
    op.create_index("ix_schedules_due", "schedules", ["due"])


def downgrade() -> None:
    """Removes it."""
    op.drop_table("schedules")
