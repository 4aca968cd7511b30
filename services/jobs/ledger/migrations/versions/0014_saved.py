"""Users keep submissions and lists of jobs under names."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "saved",
        sa.Column("owner", sa.String(160), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
    )


def downgrade() -> None:
    """Removes it."""
    op.drop_table("saved")
