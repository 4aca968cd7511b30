"""The networks, one file each, named as their `model=` key; `architectures.py` is their table."""
