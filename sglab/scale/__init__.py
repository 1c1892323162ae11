"""Work on several processes or machines: sweeps of launches, gradings, anything that is a function of plain data.

    rows = sglab.scale.sweep(modelled_time, {"splits": [1, 2, 4, 8], "seq_len": [1_000, 8_000]}, scheduler="local")

Dask distributed does it (`pip install 'sglab[scale]'`): `scheduler` is "local" for a cluster of this machine's
processes, or
the address of a scheduler, such as tcp://10.0.0.5:8786. A worker that dies loses nothing: what it had is done again
elsewhere.
"""

from .cluster import WorkerLost, workers_of
from .sweep import fan_out, sweep

__all__ = ["WorkerLost", "fan_out", "sweep", "workers_of"]
