"""Files by address: what may be named, transfers that are checked and tried again, a cache on this machine."""
