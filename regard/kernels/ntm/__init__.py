"""All steps of a Neural Turing Machine in one kernel."""
