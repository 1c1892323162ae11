"""Kernels of a submission as plain data: how they become PTX, and what the emulator says of them.

Compiling and tracing happen in one process of their own, emulating in another, in which none of the submission's Python
runs: its figures are the emulator's, and cannot be forged.
"""
