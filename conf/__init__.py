"""Hydra configuration: values by name. Schemas stand beside the code that they configure; compose.py joins both."""
