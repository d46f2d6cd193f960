"""What was seen, as data: the trace, its axes, its file, its form on the page."""
