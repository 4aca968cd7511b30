"""Evaluation of models that label texts: scores, calibration, pictures, and how sure a difference is."""
