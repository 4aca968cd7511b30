"""Attempts remember their start-up, jobs since when they wait; attempts are found by their end, for fair share."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Jobs that wait already count as waiting since they were submitted."""
    op.add_column("attempts", sa.Column("startup", sa.Double(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("waiting_since", sa.Double(), nullable=True))
    op.create_index("ix_attempts_ended", "attempts", ["ended"])


def downgrade() -> None:
    """Forget it."""
    op.drop_index("ix_attempts_ended", "attempts")
    op.drop_column("jobs", "waiting_since")
    op.drop_column("attempts", "startup")
