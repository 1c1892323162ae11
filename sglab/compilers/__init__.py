"""Compilers that produce PTX: nvcc, Triton ahead of time, CuTe DSL; and `load`, from a file or a text to a module."""

from sglab.compilers.cute import compile_cute
from sglab.compilers.load import load
from sglab.compilers.nvcc import compile_cuda

__all__ = ["compile_cuda", "compile_cute", "load"]
