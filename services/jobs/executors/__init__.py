"""The executor, which places and runs the processes of a job: a protocol, and Ray Jobs behind it."""
