"""Reads what `ncu --csv --page raw` prints: a row per profiled launch, a column per metric, the units in a row of their
own. Lines that begin with == are ncu's messages."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

from sglab.gpu.errors import LaunchError

_HOW = "make it with: ncu --set full --csv --page raw PROGRAM > report.csv"
_PREFIXES = {"n": 1.0, "u": 1e3, "m": 1e6, "": 1e9}
_NS = {prefix + name: factor for prefix, factor in _PREFIXES.items() for name in ("s", "second")}
_PLAIN = ("", "inst", "sector", "sectors", "request", "cycle", "warp", "block", "register/thread", "%")


@dataclass(frozen=True)
class ProfiledLaunch:
    """One launch of a report.

    Attributes:
        path: the report.
        kernel: its name there.
        grid, block: as ncu shows them.
    """

    path: Path
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    _values: dict[str, tuple[str, str]]

    def value(self, metric: str) -> float:
        """A metric's value; of times, in ns.

        Raises:
            LaunchError: the report lacks it, or it is not a number.
        """
        if metric not in self._values:
            raise LaunchError(
                f"report {self.path}: {self.kernel} has no metric {metric}; "
                f"profile with --set full, or add --metrics {metric}"
            )
        text, unit = self._values[metric]
        try:
            number = float(text.replace(",", ""))
        except ValueError:
            raise LaunchError(
                f"report {self.path}: metric {metric} of {self.kernel} must be a number; got {text!r}"
            ) from None
        if unit in _NS:
            return number * _NS[unit]
        if unit not in _PLAIN:
            raise LaunchError(
                f"report {self.path}: metric {metric} has the unit {unit!r}, which is not known here; "
                "profile with --print-units base"
            )
        return number


def read_report(path: str | os.PathLike[str]) -> list[ProfiledLaunch]:
    """The launches of a report.

    Args:
        path: a file that `ncu --csv --page raw` has printed.

    Raises:
        LaunchError: there is no such file, or it is none of these.
    """
    file = Path(path)
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"report must be a CSV file of ncu's; {file} cannot be read ({error}). {_HOW}") from error
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    if not rows or "Kernel Name" not in rows[0]:
        raise LaunchError(f"report must be a CSV file of ncu's; {file} has no column 'Kernel Name'. {_HOW}")
    names = rows[0]
    if "Metric Name" in names:
        raise LaunchError(f"report must be of --page raw (a column per metric); {file} has a row per metric. {_HOW}")
    if len(rows) < 2 or any(len(row) != len(names) for row in rows):
        raise LaunchError(f"report {file} is cut off: rows must have {len(names)} columns each. {_HOW}")
    units, found = rows[1], []
    for row in rows[2:]:
        values = {name: (cell, unit) for name, cell, unit in zip(names, row, units, strict=True) if cell}
        kernel, grid, block = (values.get(name, ("", ""))[0] for name in ("Kernel Name", "Grid Size", "Block Size"))
        found.append(ProfiledLaunch(file, kernel, _size(grid), _size(block), values))
    return found


def launch_of(path: str | os.PathLike[str], kernel: str, index: int = 0) -> ProfiledLaunch:
    """A kernel's launch in a report.

    Args:
        path: a file that `ncu --csv --page raw` has printed.
        kernel: its name, without parameters.
        index: which of its launches, from 0.

    Raises:
        LaunchError: the report cannot be read, or does not hold this launch.
    """
    launches = read_report(path)
    own = [one for one in launches if _base(one.kernel) == kernel]
    if not own:
        there = ", ".join(dict.fromkeys(one.kernel for one in launches)) or "no launch"
        raise LaunchError(f"report {path} must hold a launch of {kernel}; it has {there}. Profile this kernel, too")
    if not 0 <= index < len(own):
        raise LaunchError(f"index must be 0 to {len(own) - 1}, the launches of {kernel} in {path}; got {index}")
    return own[index]


def _base(name: str) -> str:
    """The name in `void name<T>(float*)`."""
    head = name.split("(")[0].split("<")[0].split()
    return head[-1] if head else ""


def _size(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip("()").split(",") if part.strip().isdigit())
