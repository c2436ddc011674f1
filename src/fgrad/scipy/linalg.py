"""Linear algebra beyond NumPy's."""
