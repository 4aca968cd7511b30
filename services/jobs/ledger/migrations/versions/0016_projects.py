"""Projects: owners who share jobs, models, folders and a quota. Quotas bound how many jobs run at once, too."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Makes the tables; jobs from before belong to no project."""
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
    op.add_column("jobs", sa.Column("project", sa.String(64), nullable=False, server_default=""))
    op.create_index("ix_jobs_project_seq", "jobs", ["project", "seq"])
    op.add_column("quotas", sa.Column("jobs", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Removes them, with the quotas of projects."""
    op.execute("DELETE FROM quotas WHERE owner LIKE 'project %'")
    op.drop_column("quotas", "jobs")
    op.drop_index("ix_jobs_project_seq", "jobs")
    op.drop_column("jobs", "project")
    op.drop_table("members")
    op.drop_table("projects")
