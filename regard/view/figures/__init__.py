"""Pictures of traces, by matplotlib and as text."""
