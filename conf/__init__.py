"""Hydra configuration: values only, by name. The schemas stand beside the code that they configure; door.py joins both."""
