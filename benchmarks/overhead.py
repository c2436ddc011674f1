"""The same small operation on Tensors that nothing records, and on arrays."""

from __future__ import annotations

import numpy as np

import fgrad as fg
import fgrad.numpy as fnp
from benchmarks import programs

A = programs.point()
B = A[::-1].copy()
T, U = fg.tensor(A), fg.tensor(B)

PAIRS = {
    "a * b": {"T * U": lambda: T * U, "A * B": lambda: A * B},
    "a + 1.0": {"T + 1.0": lambda: T + 1.0, "A + 1.0": lambda: A + 1.0},
    "fnp.sin(a)": {"fnp.sin(T)": lambda: fnp.sin(T), "np.sin(A), fnp": lambda: np.sin(A)},
    "np.sin(a)": {"np.sin(T)": lambda: np.sin(T), "np.sin(A)": lambda: np.sin(A)},
    "np.sum(a)": {"np.sum(T)": lambda: np.sum(T), "np.sum(A)": lambda: np.sum(A)},
    "np.dot(a, b)": {"np.dot(T, U)": lambda: np.dot(T, U), "np.dot(A, B)": lambda: np.dot(A, B)},
    "a[2:5]": {"T[2:5]": lambda: T[2:5], "A[2:5]": lambda: A[2:5]},
}
