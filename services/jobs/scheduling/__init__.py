"""The scheduler: a pure function of jobs, quotas, capacity and time."""
