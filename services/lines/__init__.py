"""A production line: commands whose outputs are the inputs of others, each made once for its recipe and inputs."""
