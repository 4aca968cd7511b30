"""Jobs record the trace in which they were submitted."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds a W3C traceparent; null if the submission named none."""
    op.add_column("jobs", sa.Column("trace", sa.String(55)))


def downgrade() -> None:
    """Removes it."""
    op.drop_column("jobs", "trace")
