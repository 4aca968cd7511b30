"""The commands that use a finished model or inspect files, one file each with its helpers."""
