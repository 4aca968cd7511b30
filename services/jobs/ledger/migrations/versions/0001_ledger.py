"""Jobs, attempts, the audit trail, tokens, quotas and measurements.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0001", None

REFUSAL = "the audit trail is append-only"


def upgrade() -> None:
    """Makes the tables, and makes the database itself refuse changes of the audit trail."""
    op.create_table(
        "meta", sa.Column("key", sa.String(32), primary_key=True), sa.Column("value", sa.Text, nullable=False)
    )
    op.create_table(
        "jobs",
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("key", sa.String(64)),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("words", sa.JSON, nullable=False),
        sa.Column("run", sa.String(160), nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("after", sa.JSON, nullable=False),
        sa.Column("follows", sa.Boolean, nullable=False),
        sa.Column("retries", sa.Integer, nullable=False),
        sa.Column("max_seconds", sa.Double),
        sa.Column("deadline", sa.Double),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("submitted", sa.Double, nullable=False),
        sa.Column("queued", sa.Integer, nullable=False),
        sa.Column("changed", sa.Double, nullable=False),
        sa.Column("plan", sa.JSON),
        sa.Column("choices", sa.JSON, nullable=False),
        sa.Column("cpus", sa.Double, nullable=False),
        sa.Column("gpus", sa.Double, nullable=False),
        sa.Column("seconds_low", sa.Double),
        sa.Column("seconds_high", sa.Double),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("started", sa.Double),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("losses", sa.Integer, nullable=False),
        sa.Column("spent", sa.Double, nullable=False),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
        sqlite_autoincrement=True,  # the number of a removed job is never given again
    )
    op.create_index("ix_jobs_state_seq", "jobs", ["state", "seq"])
    op.create_index("ix_jobs_owner_seq", "jobs", ["owner", "seq"])
    op.create_index("ix_jobs_owner_key", "jobs", ["owner", "key"], unique=True)
    op.create_table(
        "attempts",
        sa.Column("job", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("decided", sa.Double, nullable=False),
        sa.Column("started", sa.Double),
        sa.Column("ended", sa.Double),
        sa.Column("outcome", sa.String(16)),
        sa.Column("cause", sa.String(64)),
        sa.Column("code", sa.Integer),
        sa.Column("incarnation", sa.String(160)),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("lost_seconds", sa.Double, nullable=False),
        sa.Column("lost_tokens", sa.Integer, nullable=False),
    )
    op.create_table(
        "changes",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.String(160), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("job", sa.String(40)),
        sa.Column("owner", sa.String(160)),
        sa.Column("before", sa.String(160)),
        sa.Column("after", sa.String(160)),
        sa.Column("attempt", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_changes_job_id", "changes", ["job", "id"])
    op.create_table(
        "tokens",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(160), nullable=False),
        sa.Column("owner", sa.String(160), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("revoked", sa.Double),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
    )
    op.create_table(
        "quotas",
        sa.Column("owner", sa.String(160), primary_key=True),
        sa.Column("cpus", sa.Double),
        sa.Column("gpus", sa.Double),
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("job", sa.String(40), nullable=False),
        sa.Column("cluster", sa.String(160), nullable=False),
        sa.Column("shape", sa.String(64), nullable=False),
        sa.Column("verb", sa.String(32), nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("flops", sa.Double, nullable=False),
        sa.Column("workers", sa.Integer, nullable=False),
        sa.Column("training", sa.Double, nullable=False),
        sa.Column("around", sa.Double, nullable=False),
        sa.Column("predicted", sa.Double),
    )
    op.create_index("ix_measurements_cluster_shape", "measurements", ["cluster", "shape"])
    if op.get_bind().dialect.name == "sqlite":
        for action in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER changes_refuse_{action.lower()} BEFORE {action} ON changes "
                f"BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
            )
    else:
        op.execute(
            "CREATE FUNCTION changes_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RAISE EXCEPTION '{REFUSAL}'; END $$"
        )
        op.execute(
            "CREATE TRIGGER changes_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON changes "
            "FOR EACH STATEMENT EXECUTE FUNCTION changes_refuse()"
        )


def downgrade() -> None:
    """Removes everything, with the audit trail."""
    for table in ("measurements", "quotas", "tokens", "changes", "attempts", "jobs", "meta"):
        op.drop_table(table)
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION changes_refuse()")
