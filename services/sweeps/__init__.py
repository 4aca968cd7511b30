"""A search over settings: trials are jobs of the job service, Optuna says what to try next."""
