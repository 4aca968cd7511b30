"""Text files of every kind as lines: compressed, in archives, in containers of pairs, in UTF-16."""
