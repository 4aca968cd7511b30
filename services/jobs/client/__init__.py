"""Asking the job service: a typed client, and the command line's verbs over it."""
