"""What a pass, a list and a submission ask for is answered from indexes alone.

Revision ID: 0002
"""

from alembic import op

revision, down_revision = "0002", "0001"

INDEXES = {
    "ix_jobs_state_seq_version": ["state", "seq", "version"],  # what has changed since the last pass
    "ix_jobs_owner_state_seq": ["owner", "state", "seq"],  # how many of an owner's are in which state
    "ix_jobs_run": ["run"],  # whose run it is
}


def upgrade() -> None:
    """The first takes the place of an index that it begins with."""
    for name, columns in INDEXES.items():
        op.create_index(name, "jobs", columns)
    op.drop_index("ix_jobs_state_seq", "jobs")


def downgrade() -> None:
    """As it was."""
    op.create_index("ix_jobs_state_seq", "jobs", ["state", "seq"])
    for name in INDEXES:
        op.drop_index(name, "jobs")
