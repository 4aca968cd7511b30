"""The changes of the ledger's tables, one file each, oldest first."""
