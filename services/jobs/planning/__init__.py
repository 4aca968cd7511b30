"""Planning of a submission before it is queued: it is refused, or gets its needs, its work and its time."""
