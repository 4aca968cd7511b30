"""A file a change of the ledger's tables, oldest first."""
