"""Tensors, the table of primitives and the stack of traces: no operation is known here by name."""
