"""A model of attention's schedules on one SM: which unit works on which tile, when. Modelled: nothing here is a run."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from fractions import Fraction

DIM, KEYS = 128, 128
"""Head dim and keys of a tile."""
MAX_OPS, SUM_OPS, RESCALE_OPS, POLYNOMIAL_OPS = 2, 1, 3, 8
"""Operations of the FMA units: per score before its exponential (scale, maximum) and after it (sum, conversion); per
element of O to correct it (load, multiply, store); per exponential by a polynomial."""
UNITS = {"tensor": "tensor cores", "exp": "exponential units", "fma": "FMA units"}
SLICE = 32
"""Cycles after which the FMA units may turn to another step: warps share them."""
URGENT = ("S", "O", "exp", "sum", "max", "fix", "poly")
"""Of steps that could start at the same time, the one that comes first."""
COLOURS = (("#2f6fb5", "#ffffff"), ("#b9651b", "#ffffff"))


@dataclass(frozen=True)
class Chip:
    """What an SM does per clock cycle.

    Attributes:
        rows: queries that one stream (a warpgroup on Hopper, a tile of queries on Blackwell) has.
        tensor: floating-point operations of its tensor cores, 16-bit elements.
        exp, fma: exponentials; operations of the FMA units.
        p_over_s: P takes the place of S, so that the next S has to wait for P·V.
    """

    name: str
    rows: int
    tensor: int
    exp: int = 16
    fma: int = 128
    p_over_s: bool = False


H100 = Chip("H100", 64, 4096)
B200 = Chip("B200", 128, 8192, p_over_s=True)


@dataclass(frozen=True)
class Task:
    """One step of one tile on one unit; needs: names of the tasks that come before."""

    name: str
    stream: int
    unit: str
    cycles: int
    needs: tuple[str, ...]

    @property
    def step(self) -> str:
        """Its name without stream and tile."""
        return next(step for step in URGENT if self.name.startswith(step))


@dataclass(frozen=True)
class Schedule:
    """What a schedule came to.

    Attributes:
        title: in words.
        placed: every task with its first cycle.
        streams: tiles of queries that take turns.
        tiles: of keys, per stream.
    """

    title: str
    placed: tuple[tuple[Task, int], ...]
    streams: int
    tiles: int

    @property
    def cycles(self) -> int:
        """From the first product to the last."""
        return max(start + task.cycles for task, start in self.placed)

    def busy(self, unit: str) -> int:
        """Cycles in which a unit works."""
        return sum(task.cycles for task, _ in self.placed if task.unit == unit)

    def _repr_html_(self) -> str:
        return picture(self)

    def __repr__(self) -> str:
        return f"<model: {self.title}; {self.cycles:,} cycles, tensor cores busy for {self.busy('tensor'):,}>"


@dataclass
class Plan:
    """A schedule to be made.

    Attributes:
        chip: H100 or B200.
        streams: 1, or 2 that take turns (ping-pong).
        overlap: the next tile's S is started before this tile's softmax, in the same stream; it needs a second S.
        polynomial: share of the exponentials that the FMA units do.
        corrects: whether O is corrected at every tile.
        tiles: of keys.
    """

    chip: Chip
    streams: int = 2
    overlap: bool = False
    polynomial: Fraction | float = 0
    corrects: bool = True
    tiles: int = 4

    def __post_init__(self) -> None:
        if self.streams not in (1, 2):
            raise ValueError(f"streams: expected 1 or 2, got {self.streams}; a schedule has one tile of queries or two")
        if not 0 <= self.polynomial <= 1:
            raise ValueError(f"polynomial: expected a share from 0 to 1, got {self.polynomial}")
        if self.overlap and self.chip.p_over_s:
            raise ValueError("overlap: on the B200 P lies over S, so the next S has no room; use two streams")

    def costs(self) -> dict[str, int]:
        """Cycles of each step of a tile."""
        chip, scores, o = self.chip, self.chip.rows * KEYS, self.chip.rows * DIM
        share = Fraction(self.polynomial).limit_denominator(1024)
        return {
            "S": 2 * chip.rows * KEYS * DIM // chip.tensor,
            "O": 2 * chip.rows * KEYS * DIM // chip.tensor,
            "max": MAX_OPS * scores // chip.fma,
            "exp": int((1 - share) * scores / chip.exp),
            "poly": int(share * scores * POLYNOMIAL_OPS / chip.fma),
            "sum": SUM_OPS * scores // chip.fma,
            "fix": RESCALE_OPS * o // chip.fma if self.corrects else 0,
        }

    def schedule(self) -> Schedule:
        """Each unit does one thing at a time: tensor cores in the order of issue, others what can start first."""
        tasks = self._all_tasks()
        ends: dict[str, int] = {}
        free = dict.fromkeys(UNITS, 0)
        placed = []
        waiting = {task.name: set(task.needs) for task in tasks}
        wanted: dict[str, list[Task]] = {}
        for task in tasks:
            for need in waiting[task.name]:
                wanted.setdefault(need, []).append(task)
        order = {task.name: n for n, task in enumerate(tasks)}
        ready = [task for task in tasks if not waiting[task.name]]

        def start(task: Task) -> int:
            return max([free[task.unit], *(ends[need] for need in task.needs)])

        while ready:
            task = min(ready, key=lambda t: (start(t), URGENT.index(t.step), order[t.name]))
            ready.remove(task)
            first = start(task)
            placed.append((task, first))
            ends[task.name] = free[task.unit] = first + task.cycles
            for next_one in wanted.get(task.name, ()):
                waiting[next_one.name].discard(task.name)
                if not waiting[next_one.name]:
                    ready.append(next_one)
        return Schedule(self._title(), tuple(placed), self.streams, self.tiles)

    def cycles_per_tile(self) -> Fraction:
        """Cycles for a tile of keys and one stream, once it runs evenly."""
        few, many = (replace(self, tiles=n).schedule().cycles for n in (12, 24))
        return Fraction(many - few, 12 * self.streams)

    def tensor_share(self) -> float:
        """Share of the time in which the tensor cores work, once it runs evenly."""
        costs = self.costs()
        return float((costs["S"] + costs["O"]) / self.cycles_per_tile())

    def _title(self) -> str:
        streams = "one tile of queries" if self.streams == 1 else "two tiles of queries in turn"
        parts = [f"{self.chip.name}, {streams}", *(["next S ahead of the softmax"] if self.overlap else [])]
        parts += [f"{float(self.polynomial):.0%} of the exponentials by polynomial"] if self.polynomial else []
        return ", ".join(parts + ([] if self.corrects else ["O not corrected"]))

    def _all_tasks(self) -> list[Task]:
        costs, tasks, issued = self.costs(), [], self._issue_order()
        before = dict(zip(issued[1:], issued, strict=False))
        for stream in range(self.streams):
            for tile in range(self.tiles):

                def name(step: str, tile: int = tile, stream: int = stream) -> str:
                    return f"{step}{tile}" if self.streams == 1 else f"{step}{'ab'[stream]}{tile}"

                fixes = [name("fix")] if costs["fix"] and tile else []
                last = (name("O", tile - 1),) if tile else ()
                needs = {
                    "S": last if self.chip.p_over_s else (name("max", tile - 1),) if tile and not self.overlap else (),
                    "max": (name("S"),),
                    "exp": (name("max"),),
                    "poly": (name("max"),),
                    "sum": (name("exp"), name("poly")),
                    "O": (name("sum"), *fixes),
                }
                if fixes:
                    needs["fix"] = (name("max"), *last)
                for step, wants in needs.items():
                    unit = "tensor" if step in "SO" else "exp" if step == "exp" else "fma"
                    ordered = (before[name(step)],) if name(step) in before else ()
                    tasks += _sliced(Task(name(step), stream, unit, costs[step], (*wants, *ordered)))
        return tasks

    def _issue_order(self) -> list[str]:
        """Products as they are issued: S of a tile, then O of it and S of the next, the streams in turn."""
        marks = [""] if self.streams == 1 else ["a", "b"]
        ahead = 2 if self.overlap else 1
        order = [f"S{mark}{tile}" for tile in range(min(ahead, self.tiles)) for mark in marks]
        for tile in range(self.tiles):
            for mark in marks:
                order.append(f"O{mark}{tile}")
                if tile + ahead < self.tiles:
                    order.append(f"S{mark}{tile + ahead}")
        return order


def _sliced(task: Task) -> list[Task]:
    """A step of the FMA units in slices, the last of which has its name; any other as it is."""
    if task.unit != "fma" or task.cycles <= SLICE:
        return [task]
    made, needs = [], task.needs
    for start in range(0, task.cycles, SLICE):
        last = start + SLICE >= task.cycles
        name = task.name if last else f"{task.name}.{start // SLICE}"
        made.append(Task(name, task.stream, task.unit, min(SLICE, task.cycles - start), needs))
        needs = (name,)
    return made


def _bars(schedule: Schedule, unit: str) -> list[tuple[str, int, int, int]]:
    """(step, stream, first cycle, cycles) of a unit, slices of a step that follow each other as one."""
    bars: list[tuple[str, int, int, int]] = []
    for task, start in sorted(schedule.placed, key=lambda each: each[1]):
        name = task.name.partition(".")[0]
        if task.unit != unit or not task.cycles:
            continue
        if bars and bars[-1][0] == name and bars[-1][2] + bars[-1][3] == start:
            bars[-1] = (*bars[-1][:3], bars[-1][3] + task.cycles)
        else:
            bars.append((name, task.stream, start, task.cycles))
    return bars


def picture(schedule: Schedule) -> str:
    """An SVG: a row per unit, a box per task, in the theme's colours."""
    width, left, row, top = 1000, 130, 34, 46
    scale = (width - left - 10) / schedule.cycles
    parts = [
        f'<text x="4" y="16" font-weight="600">{html.escape(schedule.title)}</text>',
        f'<text x="4" y="34" opacity="0.75">modelled, not measured: {schedule.cycles:,} cycles for '
        f"{schedule.tiles} tiles of keys{' and each tile of queries' if schedule.streams > 1 else ''}</text>",
    ]
    for n, (unit, said) in enumerate(UNITS.items()):
        y = top + n * row
        parts.append(f'<text x="4" y="{y + 20}">{said}</text>')
        parts.append(f'<rect x="{left}" y="{y}" width="{width - left - 10}" height="{row - 6}" fill="currentColor" '
                     'opacity="0.08"/>')  # fmt: skip
        for name, stream, start, cycles in _bars(schedule, unit):
            fill, ink = COLOURS[stream]
            x, wide = left + start * scale, cycles * scale
            parts.append(
                f"<g><title>{name}: cycles {start:,} to {start + cycles:,}</title>"
                f'<rect x="{x:.1f}" y="{y}" width="{max(wide - 1, 0.5):.1f}" height="{row - 6}" rx="2" fill="{fill}"/>'
            )
            if wide > 8 * len(name) + 2:
                place = f'x="{x + wide / 2:.1f}" y="{y + 19}" fill="{ink}" text-anchor="middle"'
                parts.append(f"<text {place}>{name}</text>")
            parts.append("</g>")
    height = top + len(UNITS) * row
    return (
        f'<svg viewBox="0 0 {width} {height}" width="100%" style="max-width:{width}px;font:12px '
        'var(--jp-ui-font-family, sans-serif);color:var(--jp-content-font-color1, currentColor)" fill="currentColor" '
        f'role="img" aria-label="{html.escape(repr(schedule)[1:-1])}">{"".join(parts)}</svg>'
    )
