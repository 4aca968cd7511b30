"""A notice may be told again for another spell of the same attempt: `spell` is its start, 0 for other events."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
KEY = ["job", "attempt", "event", "target"]


def upgrade() -> None:
    """Adds the column to the notices' key."""
    op.add_column("notices", sa.Column("spell", sa.Double(), nullable=False, server_default="0"))
    op.drop_index("uq_notices_job", "notices")
    op.create_index("uq_notices_job", "notices", [*KEY, "spell"], unique=True)


def downgrade() -> None:
    """Removes it, and the notices that need it."""
    op.execute("DELETE FROM notices WHERE event = 'idle'")
    op.drop_index("uq_notices_job", "notices")
    op.create_index("uq_notices_job", "notices", KEY, unique=True)
    op.drop_column("notices", "spell")
