"""sglab: see LLM-serving attention kernels work on your own tensors."""

__version__ = "0.1.0"
