"""Indexes that alone answer the queries of a pass, a list and a submission.

Revision ID: 0002
"""

from alembic import op

revision, down_revision = "0002", "0001"

INDEXES = {
    "ix_jobs_state_seq_version": ["state", "seq", "version"],  # changes since the last pass
    "ix_jobs_owner_state_seq": ["owner", "state", "seq"],  # an owner's jobs by state
    "ix_jobs_run": ["run"],  # the owner of a run
}


def upgrade() -> None:
    """Adds the indexes; the first replaces the index that is its prefix."""
    for name, columns in INDEXES.items():
        op.create_index(name, "jobs", columns)
    op.drop_index("ix_jobs_state_seq", "jobs")


def downgrade() -> None:
    """Restores the old index."""
    op.create_index("ix_jobs_state_seq", "jobs", ["state", "seq"])
    for name in INDEXES:
        op.drop_index(name, "jobs")
