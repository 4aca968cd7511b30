"""Jobs have tags, and the registered model that they change, to be found by."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Takes the models of earlier jobs from their plans."""
    op.add_column("jobs", sa.Column("tags", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("jobs", sa.Column("model", sa.String(160), nullable=False, server_default=""))
    found = op.get_bind().execute(sa.text("SELECT seq, plan FROM jobs WHERE plan IS NOT NULL")).all()
    plans = [(seq, json.loads(plan) if isinstance(plan, str) else plan) for seq, plan in found]
    models = [{"seq": seq, "model": str(plan["model"])[:160]} for seq, plan in plans if plan and plan.get("model")]
    if models:
        op.get_bind().execute(sa.text("UPDATE jobs SET model = :model WHERE seq = :seq"), models)


def downgrade() -> None:
    """Removes them."""
    op.drop_column("jobs", "model")
    op.drop_column("jobs", "tags")
