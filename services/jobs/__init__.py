"""The job service, and jobs on a Ray cluster."""
