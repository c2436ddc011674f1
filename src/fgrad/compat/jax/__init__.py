"""What programs of JAX ask of fgrad in JAX's own terms: its random numbers, the same from the same key."""

from fgrad.compat.jax import random as random

__all__ = ["random"]
