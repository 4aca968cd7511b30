"""Folders of Hugging Face's transformers, read and written: other people's models as bundles, and ours as theirs."""
