"""Interpolation of points and grids."""
