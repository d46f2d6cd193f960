"""The functions of `regard.functional` again, fused: less memory, less time, the same laws."""
