"""Anybody's kernel as a launch that the widgets open: Triton and Gluon, CUDA C++, PTX, CuTe DSL, Numba.

sglab.step(my_triton_kernel[(4,)], x, y, 200, BLOCK=256)      # a cell's last line shows it in the debugger
axpy = sglab.cuda(source)                                     # or a cell that begins with %%cuda
axpy[4, 128](x, out, 512)                                     # runs where the tensors are
launch = sglab.step(axpy[4, 128], x, out, 512)
sglab.compare(launch, sglab.step(mine[4, 128], x, out, 512))  # where two kernels part
"""

from sglab.stepping.compare import compare
from sglab.stepping.comparison import Comparison, Difference, Parting, Store
from sglab.stepping.cuda import cuda, ptx
from sglab.stepping.cute import cute
from sglab.stepping.launch import KernelLaunch
from sglab.stepping.producers import Produced
from sglab.stepping.step import step
from sglab.stepping.trace import Trace

__all__ = [
    "Comparison",
    "Difference",
    "KernelLaunch",
    "Parting",
    "Produced",
    "Store",
    "Trace",
    "compare",
    "cuda",
    "cute",
    "ptx",
    "step",
]
