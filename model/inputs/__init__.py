"""Text files of every kind as lines: compressed, in archives, in pair formats, in UTF-16."""
