"""The HTTP endpoint: requests, the inference queue, the batcher, the routes."""
