"""Notices: what people are told of their jobs, once for each job, attempt, event and target."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Makes the table; jobs from before name no targets."""
    op.add_column("jobs", sa.Column("notify", sa.JSON(), nullable=False, server_default="[]"))
    op.create_table(
        "notices",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("target", sa.String(500), nullable=False),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
    )
    op.create_index("uq_notices_job", "notices", ["job", "attempt", "event", "target"], unique=True)
    op.create_index("ix_notices_due", "notices", ["due"])


def downgrade() -> None:
    """Removes them."""
    op.drop_table("notices")
    op.drop_column("jobs", "notify")
