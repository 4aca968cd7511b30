"""Tags, notices, schedules, presets, people's own tokens, the audit and projects: what came after version 0.2.0.

The id is that of the last of ten steps, so a ledger that has made all of them has made this one. Such a ledger
also has the tables `notes` and `issuer_accounts`, which nothing reads any more.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0008"
REFUSAL = "the audit is append-only"


def upgrade() -> None:
    """Makes the tables and the columns; jobs from before have no tags, targets and project."""
    _extend_jobs()
    _make_notices()
    _make_schedules()
    _make_people()
    _make_audit()
    _make_projects()


def _extend_jobs() -> None:
    """Adds the columns; takes the models of earlier jobs from their plans."""
    op.add_column("jobs", sa.Column("tags", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("jobs", sa.Column("model", sa.String(160), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("notify", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("jobs", sa.Column("project", sa.String(64), nullable=False, server_default=""))
    op.create_index("ix_jobs_project_seq", "jobs", ["project", "seq"])
    rows = op.get_bind().execute(sa.text("SELECT seq, plan FROM jobs WHERE plan IS NOT NULL")).all()
    plans = [(seq, json.loads(plan) if isinstance(plan, str) else plan) for seq, plan in rows]
    models = [{"seq": seq, "model": str(plan["model"])[:160]} for seq, plan in plans if plan and plan.get("model")]
    if models:
        op.get_bind().execute(sa.text("UPDATE jobs SET model = :model WHERE seq = :seq"), models)


def _make_notices() -> None:
    op.create_table(
        "notices",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("event", sa.String(16), nullable=False),
        sa.Column("spell", sa.Double(), nullable=False, server_default="0"),
        sa.Column("target", sa.String(500), nullable=False),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("sent", sa.Double(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
    )
    op.create_index("uq_notices_job", "notices", ["job", "attempt", "event", "target", "spell"], unique=True)
    op.create_index("ix_notices_due", "notices", ["due"])


def _make_schedules() -> None:
    """Makes the tables of schedules and presets."""
    op.create_table(
        "schedules",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("every", sa.String(100), nullable=False),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("words", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
        sa.Column("due", sa.Double(), nullable=True),
        sa.Column("job", sa.String(40), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=False),
        sqlite_autoincrement=True,  # an id is never used again: keys of jobs begin with it
    )
    op.create_index("ix_schedules_due", "schedules", ["due"])
    op.create_table(
        "saved",
        sa.Column("owner", sa.String(160), primary_key=True),
        sa.Column("kind", sa.String(16), primary_key=True),
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("changed", sa.Double(), nullable=False),
    )


def _make_people() -> None:
    """Extends the tokens; those from before were issued by an admin and have no end."""
    op.add_column("tokens", sa.Column("kind", sa.String(16), nullable=False, server_default="issued"))
    op.add_column("tokens", sa.Column("made_with", sa.String(64), nullable=True))
    op.add_column("tokens", sa.Column("expires", sa.Double(), nullable=True))
    op.add_column("tokens", sa.Column("used", sa.Double(), nullable=True))


def _make_audit() -> None:
    """Makes the table. The database refuses to change a row; old ones are deleted by `service.keep.audit`."""
    op.create_table(
        "audit",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("person", sa.String(160), nullable=False),
        sa.Column("token", sa.String(160), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("method", sa.String(8), nullable=False),
        sa.Column("resource", sa.String(300), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sqlite_autoincrement=True,  # a cursor stays right when the newest rows were deleted
    )
    op.create_index("ix_audit_person_id", "audit", ["person", "id"])
    op.create_index("ix_audit_at", "audit", ["at"])
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            f"CREATE TRIGGER audit_refuse_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )
    else:
        op.execute(
            "CREATE TRIGGER audit_refuse BEFORE UPDATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION changes_refuse()"
        )


def _make_projects() -> None:
    op.create_table(
        "projects",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("issuer_group", sa.Text(), nullable=False),
        sa.Column("created", sa.Double(), nullable=False),
    )
    op.create_table(
        "members",
        sa.Column("project", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(160), primary_key=True),
        sa.Column("rank", sa.String(16), nullable=False),
        sa.Column("by_group", sa.Boolean(), nullable=False),
    )
    op.create_index("ix_members_owner", "members", ["owner"])
    op.add_column("quotas", sa.Column("jobs", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Removes them, with the tokens and quotas that only they allow."""
    op.execute("DELETE FROM quotas WHERE owner LIKE 'project %'")
    op.execute("DELETE FROM tokens WHERE kind <> 'issued'")
    for table in ("members", "projects", "audit", "saved", "schedules", "notices"):
        op.drop_table(table)
    op.drop_column("quotas", "jobs")
    for name in ("kind", "made_with", "expires", "used"):
        op.drop_column("tokens", name)
    op.drop_index("ix_jobs_project_seq", "jobs")
    for name in ("project", "notify", "model", "tags"):
        op.drop_column("jobs", name)
