"""Whole tours of cities in one kernel, and how likely each step was."""
