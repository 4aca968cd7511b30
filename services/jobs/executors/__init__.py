"""Who places and runs the processes of a job: one protocol for Ray Jobs and Kueue."""
