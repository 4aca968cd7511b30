"""What a submission comes to before it is queued: refused, or resolved with its needs, its work and its time."""
