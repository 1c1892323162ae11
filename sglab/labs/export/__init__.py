"""Labs for other graders: as assignments of nbgrader and of Otter-Grader."""

from .nbgrader import write_nbgrader
from .otter import write_otter

__all__ = ["write_nbgrader", "write_otter"]
