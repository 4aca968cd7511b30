"""The model that answers: found by path, run or registered version, loaded, and followed when the champion changes."""
