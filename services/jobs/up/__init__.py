"""`dragoman up`: puts the parts of the job service together and runs them."""
