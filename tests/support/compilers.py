"""Whether tests can compile CUDA C++."""

from sglab.compilers.nvcc import find_nvcc
from sglab.gpu.errors import MissingDependencyError


def has_nvcc() -> bool:
    try:
        find_nvcc()
    except MissingDependencyError:
        return False
    return True
