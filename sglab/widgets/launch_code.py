"""The instructions that a recorded launch executed, as the page shows them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sglab.events.cluster.columns import Array
from sglab.gpu.code import Code
from sglab.gpu.places import shown_path


def code_table(code: Code, used: Array) -> Array:
    """UTF-8 bytes of a JSON object, of the instructions whose pcs are `used`, in columns.

    pc, line (of the PTX), text, opcode and kind (indices into opcodes and kinds), chain (index into chains)
    chains: the source line of an instruction, then the lines at which the function around it was inlined, as
        [file, line] with file an index into files; the first chain is empty
    """
    pcs = np.unique(used).tolist()
    numbers: dict[str, dict[Any, int]] = {"opcodes": {}, "kinds": {}, "files": {}, "chains": {(): 0}}

    def number(table: str, value: Any) -> int:
        return numbers[table].setdefault(value, len(numbers[table]))

    columns: dict[str, list[Any]] = {name: [] for name in ("pc", "line", "text", "opcode", "kind", "chain")}
    for pc in pcs:
        line, opcode, kind, chain = code.rows[pc]
        places = tuple((number("files", place[0]), place[1]) for place in chain)
        row = (pc, line, code[pc].text, number("opcodes", opcode), number("kinds", kind), number("chains", places))
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    table = {**columns, **{name: list(values) for name, values in numbers.items()}}
    table["files"] = [shown_path(file) for file in table["files"]]
    return np.frombuffer(json.dumps(table, separators=(",", ":")).encode(), np.uint8)
