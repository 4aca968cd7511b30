"""Child processes that answer questions, a line of JSON each: untrusted work with limits of time and memory."""
