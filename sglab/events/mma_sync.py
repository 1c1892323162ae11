"""mma.sync as rows of an event log's table of matrix multiplications: its operands say everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from sglab.events.tables import ELEMENT_TYPES, MMA_KINDS, MMA_SPACES, Array
from sglab.gpu.code import Code


def with_mma_sync(columns: dict[str, Array], code: Code, pc: Array) -> dict[str, Array]:
    """The columns of Mmas with a row for every executed mma.sync added, in order of events.

    Args:
        columns: of the asynchronous multiplications.
        pc: of every event.
    """
    multiplications = code.kernel.multiplications()
    forms = {
        pc: _fields(m, n, k, a_type, b_type, d_type)
        for pc, (kind, m, n, k, a_type, b_type, d_type, _) in multiplications.items()
        if kind == "mma.sync"
    }
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


def _fields(m: int, n: int, k: int, a_type: str, b_type: str, d_type: str) -> dict[str, Any]:
    return {
        "kind": MMA_KINDS.index("mma.sync"),
        "m": m,
        "n": n,
        "k": k,
        "d": -1,
        "cta_group": 1,
        "accumulate": True,
        "a_space": MMA_SPACES.index("registers"),
        "d_type": ELEMENT_TYPES.index(d_type),
        "a_type": ELEMENT_TYPES.index(a_type),
        "b_type": ELEMENT_TYPES.index(b_type),
    }
