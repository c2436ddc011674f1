"""Convolutions, filters and short-time transforms."""
