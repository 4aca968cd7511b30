"""The changes of the endpoint's tables, one file each, oldest first."""
