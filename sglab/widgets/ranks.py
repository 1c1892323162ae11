"""Ranks: which rank holds which part of each weight, and every collective of a pass with its bytes and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from sglab.engine import arguments
from sglab.engine.errors import BadArgumentError
from sglab.words import plural
from sglab.workbench.recorders.ranks import Joint, RanksRun

from .base import asset, command
from .opening import Opener, of_batch
from .page_table import PageTable


class Ranks(Opener):
    """Several ranks side by side: shards of every weight; collectives in order, with bytes, waiting and duration.

    Args:
        run: what `sglab.workbench.record_ranks` kept of an engine, or what `record_exchange` returned.
        step: which pass to show first.
    """

    bundle = "ranks"
    format = 1
    _module = asset("ranks.js")
    _css = asset("ranks.css")

    step = traitlets.Int(0, help="the pass that is shown").tag(sync=True)
    passes = traitlets.List(traitlets.Dict(), help="mode and tokens of each group, and how groups are padded").tag(
        sync=True
    )
    joints = traitlets.List(traitlets.Dict(), help="the pass's collectives, in order").tag(sync=True)
    run = traitlets.Dict(help="title, size, dpSize, epSize, backend").tag(sync=True)
    shards = traitlets.List(traitlets.Dict(), help="each weight: name, kind, and what each rank holds").tag(sync=True)

    def __init__(self, run: RanksRun, step: int = 0) -> None:
        if not isinstance(run, RanksRun):
            expected = "what sglab.workbench.record_ranks or record_exchange gives"
            raise BadArgumentError("run", expected, type(run).__name__, "Record an engine on several ranks.")
        if not run.passes:
            remedy = run.lost or "Generate inside the block, and show it after."
            raise BadArgumentError("run", "one pass at least", "none", remedy)
        super().__init__()
        self.recorded = run
        self._show(step)

    def page_table(self, layer: int = 0) -> PageTable:
        """The page table of what a layer attends to in the recorded prefill, on one process with whole weights.

        Args:
            layer: its number in the model.
        """
        return PageTable(self.recorded.layer_batch(layer))

    @command
    def open_widget(self, widget: str, layer: int) -> dict[str, Any]:
        """Opens a widget on what a layer attends to in the recorded prefill, on one process with whole weights."""
        return self.opened(of_batch(widget, self.recorded.layer_batch(layer)), f"layer {layer}")

    @command
    def show(self, step: int) -> int:
        """Shows another pass. Returns how many collectives it has."""
        self._show(step)
        return len(self.joints)

    def _show(self, step: int) -> None:
        run = self.recorded
        arguments.integer(
            "step", step, 0, len(run.passes) - 1, f"Recorded: {plural(len(run.passes), 'pass', 'passes')}."
        )
        joints = run.of_pass(step)
        count = plural(len(joints), "collective")
        subject = f"{run.title}: pass {step} of {len(run.passes)}, {count}, {_sent(run, joints)} a rank"
        processes = plural(run.size, "process", "processes")
        title = f"Measured on {processes} with {run.backend}; bytes are those of the ring algorithm"
        self.publish(
            pass_tensors(run, step),
            step=step,
            passes=[_pass_row(number, starts) for number, starts in enumerate(run.passes)],
            joints=[_joint_row(joint) for joint in joints],
            run={
                "title": run.title,
                "size": run.size,
                "dpSize": run.dp_size,
                "epSize": run.ep_size,
                "backend": run.backend,
            },
            shards=shard_rows(run),
            header={
                "title": "Ranks",
                "subject": subject,
                "badge": {"text": f"measured · {run.backend}", "title": title},
            },
        )


def pass_tensors(run: RanksRun, step: int) -> dict[str, np.ndarray]:
    """A pass's times and exchanges.

    Returns:
        times float64 [collectives, ranks, 2]: begin and end in µs since the first rank began the pass, NaN for ranks
        that take no part. parts float64 [collectives, ranks, ranks]: bytes from rank to rank where they are exchanged,
        else NaN. begins float64 [ranks]: when each began the pass.
    """
    joints, starts = run.of_pass(step), [one.start for one in run.passes[step]]
    origin = min([*starts, *(joint.start for joint in joints)])
    times = np.full((len(joints), run.size, 2), np.nan)
    parts = np.full((len(joints), run.size, run.size), np.nan)
    for at, joint in enumerate(joints):
        for rank, one in joint.on.items():
            times[at, rank] = (one.start - origin) / 1e3, (one.end - origin) / 1e3
            for peer, size in zip(one.ranks, one.parts, strict=False):
                parts[at, rank, peer] = size
    return {"times": times, "parts": parts, "begins": (np.array(starts, dtype=np.float64) - origin) / 1e3}


def _sent(run: RanksRun, joints: list[Joint]) -> str:
    """What leaves a rank in a pass, of the ranks with the least and the most."""
    sent = [sum(joint.left(rank) for joint in joints) for rank in range(run.size)]
    return " to ".join(dict.fromkeys(_binary(each) for each in (min(sent), max(sent))))


def _binary(count: int) -> str:
    """Bytes in powers of two, as the widget's own texts have them: "151 KiB"."""
    scaled, units = float(count), ["B", "KiB", "MiB", "GiB"]
    while scaled >= 1024 and len(units) > 1:
        scaled, units = scaled / 1024, units[1:]
    return f"{scaled:.{0 if units[0] == 'B' or scaled >= 100 else 1}f} {units[0]}"


def _pass_row(number: int, starts: list[Any]) -> dict[str, Any]:
    first = starts[0]
    modes = list(dict.fromkeys(one.mode for one in starts))
    return {
        "number": number,
        "modes": modes,
        "tokens": list(first.num_tokens),
        "padding": first.padding,
        "rows": first.rows,
    }


def _joint_row(joint: Joint) -> dict[str, Any]:
    one = joint.any
    kind = "send" if one.kind == "recv" else one.kind
    return {
        "kind": kind,
        "what": one.what,
        "module": one.module,
        "moduleClass": one.module_class,
        "ranks": sorted(joint.on),
        "shapes": {str(rank): list(each.shape) for rank, each in joint.on.items()},
        "dtype": one.dtype,
        "bytes": {str(rank): each.nbytes for rank, each in joint.on.items()},
        "moved": joint.moved,
    }


def shard_rows(run: RanksRun) -> list[dict[str, Any]]:
    """Each weight with what every rank holds of it."""
    return [
        {
            "name": same[0].name,
            "kind": same[0].kind,
            "held": [
                {
                    "shape": list(shard.shape),
                    "bytes": shard.nbytes,
                    "parts": [
                        {
                            "name": part.name,
                            "axis": part.axis,
                            "start": part.start,
                            "stop": part.stop,
                            "whole": part.whole,
                            "ids": list(part.ids),
                        }
                        for part in shard.parts
                    ],
                }
                for shard in same
            ],
        }
        for same in zip(*run.shards, strict=True)
    ]
