"""The use of a job: CPU, memory, GPUs and disk of its processes, and the same of the machine."""
