"""Compilers that produce PTX: nvcc and Triton, ahead of time, cached by content."""
