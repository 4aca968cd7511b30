"""What a job uses: CPU, memory, GPUs and disk of its processes, and the same of the machine."""
