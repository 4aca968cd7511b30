"""Notes of people on jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "notes",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("job", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("author", sa.String(160), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_notes_job", "notes", ["job"])


def downgrade() -> None:
    """Removes it."""
    op.drop_table("notes")
