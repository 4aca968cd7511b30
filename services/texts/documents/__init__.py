"""Documents as passages to translate, and back with their layout: a file for each kind."""
