"""Compiled programs on a CUDA device: the CPU's steps, as kernels over grids, products by cuBLAS, loops."""

from fgrad.compiler.device.executable import DeviceExecutable as DeviceExecutable
