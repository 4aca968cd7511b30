"""Who starts next: a pure function of jobs, quotas, capacity and time."""
