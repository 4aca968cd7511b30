"""Executors, which place and run the processes of a job: one protocol for Ray Jobs and Kueue."""
