"""Documents that are translated as jobs, kept in a folder: they survive a restart, and processes share them."""
