"""Kernels: scalar expressions inside compiled loops, one generator for each backend."""
