"""Probability distributions: densities, distribution functions and quantiles."""
