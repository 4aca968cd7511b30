"""A search over settings: trials are jobs of the job service, and Optuna proposes the next ones."""
