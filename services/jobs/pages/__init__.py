"""The job service's pages: HTML that works without script, one stream of server-sent events for what is new."""
