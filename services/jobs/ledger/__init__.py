"""The ledger: requests, their owners, and every change with its reason; SQLAlchemy on sqlite or PostgreSQL."""
