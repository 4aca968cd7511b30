"""Which model answers: found by path, run or registered version, loaded, followed when the champion changes."""
