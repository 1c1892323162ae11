"""mma.sync as rows of an event log's table of matrix multiplications: all there is to know stands in the mnemonic."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sglab.events.tables import ELEMENT_TYPES, MMA_KINDS, MMA_SPACES, Array
from sglab.gpu.code import Code

_FORM = re.compile(r"mma\.sync\..*?m(\d+)n(\d+)k(\d+)")


def with_mma_sync(columns: dict[str, Array], code: Code, pc: Array) -> dict[str, Array]:
    """The columns of Mmas with a row for every executed mma.sync added, in order of events.

    columns: of the asynchronous multiplications; pc: of every event
    """
    forms = {at: _fields(row[1]) for at, row in enumerate(code.rows) if row[1].startswith("mma.sync")}
    if not forms:
        return columns
    is_mma = np.zeros(len(code.rows), bool)
    is_mma[list(forms)] = True
    events = np.flatnonzero(is_mma[pc]).astype(columns["event"].dtype)
    order = np.argsort(np.r_[columns["event"], events], kind="stable")
    merged = {}
    for name, values in columns.items():
        if name in ("event", "done"):
            added = events.astype(values.dtype)
        else:
            by_pc = np.zeros(len(code.rows), values.dtype)
            for at, fields in forms.items():
                by_pc[at] = fields.get(name, 0)
            added = by_pc[pc[events]]
        merged[name] = np.r_[values, added][order]
    return merged


def _fields(opcode: str) -> dict[str, Any]:
    found = _FORM.match(opcode)
    if found is None:
        raise ValueError(f"no shape in {opcode}")
    types = [ELEMENT_TYPES.index(part) for part in opcode.split(".") if part in ELEMENT_TYPES]
    m, n, k = map(int, found.groups())
    return {
        "kind": MMA_KINDS.index("mma.sync"),
        "m": m,
        "n": n,
        "k": k,
        "d": -1,
        "cta_group": 1,
        "accumulate": True,
        "a_space": MMA_SPACES.index("registers"),
        "d_type": types[0],
        "a_type": types[1],
        "b_type": types[2],
    }
