"""Tokens that people make for themselves: with an end, and the token that they were made with."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
COLUMNS = ("kind", "made_with", "expires", "used")


def upgrade() -> None:
    """Adds the columns; tokens from before were issued by an admin and have no end."""
    op.add_column("tokens", sa.Column("kind", sa.String(16), nullable=False, server_default="issued"))
    op.add_column("tokens", sa.Column("made_with", sa.String(64), nullable=True))
    op.add_column("tokens", sa.Column("expires", sa.Double(), nullable=True))
    op.add_column("tokens", sa.Column("used", sa.Double(), nullable=True))


def downgrade() -> None:
    """Removes them, and the tokens that would have no end then."""
    op.execute("DELETE FROM tokens WHERE kind <> 'issued'")
    for name in COLUMNS:
        op.drop_column("tokens", name)
