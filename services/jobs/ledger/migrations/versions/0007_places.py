"""Folders that jobs write have owners."""

import json
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Gives the runs and shards of earlier jobs to the owner of the first job that did not fail."""
    path = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    places = op.create_table(
        "places",
        sa.Column("path", path, primary_key=True),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("job", sa.String(40), nullable=False),
    )
    query = sa.text("SELECT id, owner, run, plan FROM jobs WHERE run <> '' AND state <> 'failed' ORDER BY seq")
    found: dict[str, dict[str, str]] = {}
    for job, owner, run, plan in op.get_bind().execute(query):
        values = json.loads(plan) if isinstance(plan, str) else plan or {}
        kind, _, folder = run.partition(" ")
        where = str(Path(values.get("run_dir", folder) if kind == "run" else folder).resolve())
        first = found.setdefault(where, {"path": where, "owner": owner, "job": job})
        if first["owner"] == owner:
            first["job"] = job
    if found:
        op.bulk_insert(places, list(found.values()))


def downgrade() -> None:
    """Removes them."""
    op.drop_table("places")
