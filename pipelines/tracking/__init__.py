"""Tracking: a run's record in MLflow, its version in the registry, the history of promotions.

The only access to MLflow. The other pipelines call `TrackedRun` (run.py); everything is first written to a spool on the
local disk (spool.py) and sent from there in the background (sender.py).
"""
