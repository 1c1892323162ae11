"""A class on one server: the roster, each student's seat and its limits, the hub's parts, the instructor's dashboard.

`sglab hub` starts it; `docs/classroom.md` says how. The modules that are loaded by JupyterHub (`spawner`,
`authenticator`)
need the extra `hub`; `roster`, `folders`, `limits` and `dashboard.state` do not.
"""

from .folders import ClassFolder
from .gpu_queue import GpuBusyError, GpuQueue, device
from .limits import SeatLimits
from .roster import Person, read_roster

__all__ = ["ClassFolder", "GpuBusyError", "GpuQueue", "Person", "SeatLimits", "device", "read_roster"]
