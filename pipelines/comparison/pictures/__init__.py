"""The comparison's pictures, one file each; drawing needs no display."""
