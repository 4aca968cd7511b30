"""The token that lends a job its rights."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Adds the column; queued jobs of admins lose their rights, until they are retried."""
    op.add_column("jobs", sa.Column("token", sa.String(64), nullable=True))


def downgrade() -> None:
    """Removes it."""
    op.drop_column("jobs", "token")
