"""The job service: the loop that carries out the ledger's jobs, and the REST interface."""
