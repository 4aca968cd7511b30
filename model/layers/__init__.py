"""The layers of networks: attention, recurrence, positions, dropout, losses."""
