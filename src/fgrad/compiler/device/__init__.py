"""Compiled programs on a CUDA device: kernels over grids, products by cuBLAS, loops and graphs."""

from fgrad.compiler.device.executable import DeviceExecutable as DeviceExecutable
