"""The client of the job service: typed, with the command line's commands on it."""
