"""`dragoman compare`: trains networks with equal budgets, measures them alike, and shows them in one table."""
