"""Jobs remember the trace that they were submitted in."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """A W3C traceparent; null where whoever submitted it named none."""
    op.add_column("jobs", sa.Column("trace", sa.String(55)))


def downgrade() -> None:
    """Forget it."""
    op.drop_column("jobs", "trace")
