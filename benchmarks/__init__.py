"""What fgrad costs, beside other libraries in the same run: `python -m benchmarks`."""

import os
import sys

THREADS = os.environ.get("BENCHMARK_THREADS", "2")

# Read once, when NumPy, PyTorch and JAX start: the same number of threads for all.
if "numpy" not in sys.modules:
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPROC"):
        os.environ[_name] = THREADS
