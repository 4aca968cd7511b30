"""The job service: the loop that keeps the promises of the ledger, and the REST interface."""
