"""GPUs, real and emulated: devices, PTX modules, tensor maps, and the compilers that produce PTX.

Importing this package needs neither torch nor Triton nor a GPU; each of them is asked for where it is used.
"""
