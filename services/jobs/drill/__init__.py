"""`dragoman drill`: causes faults in one's own service and measures the recovery."""
