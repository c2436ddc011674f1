"""Minima, roots and fits, differentiable in the parameters of the problem."""
