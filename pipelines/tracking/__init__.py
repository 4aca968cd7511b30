"""What a run leaves behind: its record in MLflow, its version in the registry, the history of promotions.

The only door to MLflow. `TrackedRun` (run.py) is what the other pipelines call; everything is written to a spool on
the local disk first (spool.py) and sent from there in the background (sender.py).
"""
