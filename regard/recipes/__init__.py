"""The recipes: one task, one package; its config first, its tables last."""
