"""Measurements record the network's size, which forecasts use, and the promised range, which judges them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
NUMBERS: dict[str, type[sa.types.TypeEngine[Any]]] = {"tokens": sa.Double, "width": sa.Integer, "layers": sa.Integer}


def upgrade() -> None:
    """Leaves the columns of earlier measurements empty."""
    for name in ("low", "high"):
        op.add_column("measurements", sa.Column(name, sa.Double(), nullable=True))
    for name, kind in NUMBERS.items():
        op.add_column("measurements", sa.Column(name, kind(), nullable=False, server_default="0"))
    op.add_column("measurements", sa.Column("architecture", sa.String(64), nullable=False, server_default=""))


def downgrade() -> None:
    """Removes them."""
    for name in ("low", "high", *NUMBERS, "architecture"):
        op.drop_column("measurements", name)
