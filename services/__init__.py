"""The services: the command line, the translation endpoint, the jobs."""
