"""The recipes: one result, one file, read top to bottom."""
