"""The verbs that use a finished model or look at what lies around, a file each with what only they use."""
