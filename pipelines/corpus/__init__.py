"""From corpus files to clean, planned sentence pairs: reading, cleaning, alignment check, the global plan."""
