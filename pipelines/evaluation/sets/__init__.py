"""Named test sets: read, translated once, scored by several metrics, and checked for faults of meaning."""
