"""Hydra configuration: values only, by name. The schemas stand beside the code they configure; door.py joins both."""
