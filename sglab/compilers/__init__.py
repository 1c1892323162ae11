"""Compilers that produce PTX: nvcc, Triton ahead of time, CuTe DSL; and `load`, from a file or a text to a module."""

from sglab.compilers.load import load

__all__ = ["load"]
