"""Word vectors: training or counting them, and queries on them."""
