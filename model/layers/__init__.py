"""What networks are built of: attention, recurrence, positions, dropout, losses."""
