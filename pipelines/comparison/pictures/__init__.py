"""The comparison's pictures, one file each, drawn without a display."""
