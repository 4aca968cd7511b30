"""API keys and their use, known translations, glossaries.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import sqlite

revision, down_revision = "0001", None

NUMBER = sa.BigInteger().with_variant(sqlite.INTEGER, "sqlite")
METADATA = sa.MetaData()
sa.Table(
    "api_keys",
    METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(160), nullable=False, unique=True),
    sa.Column("created", sa.Double, nullable=False),
    sa.Column("revoked", sa.Double),
    sa.Column("characters", sa.BigInteger),
    sa.Column("requests", sa.Integer),
    sa.Column("languages", sa.JSON),
    sa.Column("priority", sa.Integer, nullable=False),
)
sa.Table(
    "api_usage",
    METADATA,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("period", sa.String(16), primary_key=True),
    sa.Column("characters", sa.BigInteger, nullable=False),
    sa.Column("requests", sa.BigInteger, nullable=False),
)
sa.Table(
    "translation_memory",
    METADATA,
    sa.Column("id", NUMBER, primary_key=True),
    sa.Column("owner", sa.String(160), nullable=False),
    sa.Column("source", sa.String(35), nullable=False),
    sa.Column("target", sa.String(35), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("translation", sa.Text, nullable=False),
    sa.Column("origin", sa.String(160), nullable=False),
    sa.Column("changed", sa.Double, nullable=False, index=True),
    sa.UniqueConstraint("owner", "source", "target", "digest"),
)
sa.Table(
    "glossaries",
    METADATA,
    sa.Column("id", sa.String(36), primary_key=True),
    sa.Column("owner", sa.String(64), nullable=False, index=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
)
sa.Table(
    "glossary_dictionaries",
    METADATA,
    sa.Column("id", NUMBER, primary_key=True),
    sa.Column("glossary", sa.String(36), sa.ForeignKey("glossaries.id"), nullable=False, index=True),
    sa.Column("source", sa.String(35), nullable=False),
    sa.Column("target", sa.String(35), nullable=False),
    sa.Column("entries", sa.Integer, nullable=False),
    sa.Column("terms", sa.JSON, nullable=False),
)


def upgrade() -> None:
    """Makes the tables; those of version 0.2, which counted no versions and made only what it used, stay."""
    METADATA.create_all(op.get_bind())


def downgrade() -> None:
    """Removes them, with all keys."""
    METADATA.drop_all(op.get_bind())
