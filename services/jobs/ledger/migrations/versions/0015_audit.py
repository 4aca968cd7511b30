"""The audit: who asked the service for what, and what was answered."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
REFUSAL = "the audit is append-only"


def upgrade() -> None:
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


def downgrade() -> None:
    """Removes it."""
    op.drop_table("audit")
