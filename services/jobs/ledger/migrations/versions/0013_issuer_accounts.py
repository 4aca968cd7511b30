"""The accounts of an OpenID Connect issuer that owners' names belong to."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Makes the table."""
    op.create_table(
        "issuer_accounts",
        sa.Column("owner", sa.String(160), primary_key=True),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("seen", sa.Double(), nullable=True),
    )


def downgrade() -> None:
    """Removes it."""
    op.drop_table("issuer_accounts")
