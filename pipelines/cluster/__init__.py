"""Processes: Ray Train, the ranks of a process group, tasks spread over machines."""
