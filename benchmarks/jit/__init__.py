"""Compiled programs beside those of other compilers: `python -m benchmarks.jit`."""
