"""Products and solutions with sparse matrices."""
