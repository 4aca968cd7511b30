"""Texts of users as lines for a model, and back: what must not change stays, markup moves with its words."""
