"""What was asked, by whom, and every change of it with its reason: SQLAlchemy on sqlite or PostgreSQL."""
