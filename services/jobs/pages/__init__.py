"""The job service's pages: HTML that works without scripts; one stream of server-sent events carries updates."""
