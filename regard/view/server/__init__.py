"""The server of the page: what it lets in, what it runs, what it keeps, and what it answers."""
