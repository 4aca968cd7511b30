"""Bundles, the directories of finished models: written atomically, verified once, read without pickles."""
