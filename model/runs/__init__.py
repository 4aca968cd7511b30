"""The folder of a run: its files by name, its journal, its records, its checkpoints. Everybody asks this room."""
