"""What the recipes of pointer networks share: only their tasks and what is measured differ."""
