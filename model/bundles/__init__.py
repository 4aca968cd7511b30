"""The directory that a finished model is: written whole, verified once, read without pickles."""
