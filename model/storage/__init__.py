"""Files by address: allowed names, checked transfers with retries, a local cache."""
