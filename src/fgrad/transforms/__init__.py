"""The interpretations: each transformation is a trace and the functions that run it."""
