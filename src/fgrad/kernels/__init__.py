"""Buffers in, buffers out: loops made of scalar expressions, for NumPy, the CPU and CUDA."""
