"""Names of registered models have owners; a job records whether an admin submitted it."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Treats earlier jobs as submitted with only their owner's rights."""
    op.create_table(
        "models",
        sa.Column("name", sa.String(160), nullable=False),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_models"),
    )
    op.add_column("jobs", sa.Column("admin", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Removes both."""
    op.drop_column("jobs", "admin")
    op.drop_table("models")
