"""What runs and answers: the command line, the translation endpoint, the jobs."""
