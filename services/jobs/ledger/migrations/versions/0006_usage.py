"""Attempts record their start-up, jobs the start of their wait; an index finds attempts by end, for fair share."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Counts jobs that wait already as waiting since their submission."""
    op.add_column("attempts", sa.Column("startup", sa.Double(), nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("waiting_since", sa.Double(), nullable=True))
    op.create_index("ix_attempts_ended", "attempts", ["ended"])


def downgrade() -> None:
    """Removes them."""
    op.drop_index("ix_attempts_ended", "attempts")
    op.drop_column("jobs", "waiting_since")
    op.drop_column("attempts", "startup")
