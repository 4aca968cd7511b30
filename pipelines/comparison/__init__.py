"""`dragoman compare`: networks trained with equal budgets, measured alike, side by side on one page."""
