"""Hydra configuration: values by name. Schemas are beside the code that they configure; compose.py joins both."""
