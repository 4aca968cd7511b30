"""`dragoman drill`: faults made on purpose against one's own service, and how long it takes to recover."""
