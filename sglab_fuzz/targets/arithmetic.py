"""Every mnemonic of the arithmetic families against its oracle, thousands of lanes a launch, here or on a GPU."""

from __future__ import annotations

import json
import random
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from sglab import gpu
from sglab_fuzz.arithmetic.form import Bits, Form, width
from sglab_fuzz.arithmetic.forms import all_forms
from sglab_fuzz.arithmetic.operands import draw
from sglab_fuzz.arithmetic.soft import FORMATS, decode
from sglab_fuzz.target import Finding
from tests.support.conformance.case import DTYPES, Case

LANES = 4096
"""Of a form's first round; later rounds have LATER."""
LATER = 1 << 16
SIGNED = {16: np.int16, 32: np.int32, 64: np.int64}
BLOCK = 128


class Arithmetic:
    """A case is a form's name and a seed, or a form's name and operands."""

    name = "arithmetic"
    unit = "operations"

    def __init__(self, device: str) -> None:
        self.device: Any = gpu.CudaDevice(0) if device == "cuda" else gpu.EmulatedDevice("sm_100a", sms=4)
        self.on_gpu = device == "cuda"
        self.forms = all_forms()
        self.by_name = {form.name: form for form in self.forms}

    def make(self, rng: random.Random, number: int) -> str:
        """Forms in turn, so that each is met once in every round."""
        form = self.forms[number * 1009 % len(self.forms)]
        lanes = LANES if number < len(self.forms) else LATER
        return json.dumps({"form": form.name, "seed": rng.getrandbits(48), "lanes": min(lanes, form.most)}) + "\n"

    def run(self, text: str) -> int:
        case = json.loads(text)
        form = self.by_name[case["form"]]
        if "operands" in case:
            sources = [np.array([int(v, 16) for v in column], np.uint64) for column in case["operands"]]
        else:
            sources = draw(form.sources, np.random.default_rng(case["seed"]), case["lanes"])
            sources = leave_out(form, sources)
        kernel = _kernel(form, str(self.device.arch) if self.on_gpu else "sm_100a")
        try:
            result = self._launch(kernel, form, sources)
        except gpu.GpuError:
            if self.on_gpu:  # a form that this GPU's compiler does not have
                return 0
            raise
        wrong = np.flatnonzero(~agrees(form, result, form.oracle(*sources), sources))
        if len(wrong):
            raise self._finding(form, sources, result, wrong)
        return len(result)

    def _launch(self, kernel: Any, form: Form, sources: list[Bits]) -> Bits:
        place = self.device.torch_device
        tensors = []
        for kind, bits in zip(form.sources, sources, strict=True):
            of = width(kind)
            tensors.append(torch.from_numpy(bits.astype(DTYPES[of]).view(SIGNED[of])).to(place))
        count = len(sources[0])
        result = torch.zeros(count, dtype=getattr(torch, f"int{form.result}"), device=place)
        kernel.launch(self.device, grid=-(-count // BLOCK), block=BLOCK, args=[*tensors, result, count])
        self.device.synchronize()
        return result.cpu().numpy().view(DTYPES[form.result]).astype(np.uint64)

    def _finding(self, form: Form, sources: list[Bits], result: Bits, wrong: np.ndarray) -> Finding:
        few = wrong[:4]
        expected = form.oracle(*(s[few] for s in sources))
        shown = [
            f"({', '.join(hex(int(s[k])) for s in sources)}) gives {int(result[k]):#x}, not {int(e):#x}"
            for k, e in zip(few, expected, strict=True)
        ]
        operands = [[hex(int(v)) for v in s[few]] for s in sources]
        replay = json.dumps({"form": form.name, "operands": operands}) + "\n"
        return Finding(f"{form.name}: {len(wrong)} of {len(result)} wrong; {'; '.join(shown)}", replay)


def leave_out(form: Form, sources: list[Bits]) -> list[Bits]:
    """Without what no source defines: integer division by zero and of the least number by -1."""
    op, kind = form.name.split(".")[0], form.sources[0]
    if op not in ("div", "rem") or kind[0] not in "us":
        return sources
    bits = width(kind)
    overflow = (sources[0] == np.uint64(1 << (bits - 1))) & (sources[1] == np.uint64((1 << bits) - 1))
    keep = (sources[1] != 0) & ~(overflow & (kind[0] == "s"))
    return [s[keep] for s in sources]


def agrees(form: Form, result: Bits, expected: Bits, sources: list[Bits]) -> np.ndarray:
    """Per lane: equal, or as near as the form allows."""
    same = result == expected
    if same.all() or not (form.ulps or form.any_nan):
        return same
    if form.unit == "upper":
        return same | _near_upper(result, expected, form.ulps)
    base = form.unit.removesuffix("x2")
    f = FORMATS[base]
    parts = [(result, expected)]
    if form.unit.endswith("x2"):
        low = np.uint64((1 << f.bits) - 1)
        parts = [(result & low, expected & low), (result >> np.uint64(f.bits), expected >> np.uint64(f.bits))]
    whole = np.ones(len(result), bool)
    for got, wanted in parts:
        whole &= (got == wanted) | _near(got, wanted, f, form, sources)
    return whole


def _near(got: Bits, wanted: Bits, f: Any, form: Form, sources: list[Bits]) -> np.ndarray:
    nan = f.is_nan(got), f.is_nan(wanted)
    order = [
        np.where(v & np.uint64(f.sign), -(v & np.uint64(f.sign - 1)).astype(np.int64), v.astype(np.int64))
        for v in (got, wanted)
    ]
    near = (nan[0] & nan[1] & (form.any_nan | (form.ulps > 0))) | (
        ~nan[0] & ~nan[1] & (form.ulps > 0) & (np.abs(order[0] - order[1]) <= form.ulps)
    )
    if form.bound is not None:
        with np.errstate(invalid="ignore"):
            near |= np.abs(decode(got, f) - decode(wanted, f)) <= form.bound(*sources)
            near |= ~nan[0] & ~nan[1] & np.isinf(form.bound(*sources))
    return near


def _near_upper(got: Bits, wanted: Bits, ulps: int) -> np.ndarray:
    """Upper words of f64: NaN alike, else a few steps."""
    nan = [(v & np.uint64(0x7FFFFFFF)) > np.uint64(0x7FF00000) for v in (got, wanted)]
    order = [
        np.where(v >> np.uint64(31), -(v & np.uint64(0x7FFFFFFF)).astype(np.int64), v.astype(np.int64))
        for v in (got, wanted)
    ]
    return (nan[0] & nan[1]) | (~nan[0] & ~nan[1] & (np.abs(order[0] - order[1]) <= ulps))


@lru_cache(maxsize=4096)
def _kernel(form: Form, target: str) -> Any:
    bits = tuple(width(kind) for kind in form.sources)
    case = Case(form.code, form.result, bits, form.oracle, lambda rng: (), target=target, declare=form.declare)
    return gpu.load(case.ptx())["conform"]


def target(device: str) -> Arithmetic:
    return Arithmetic(device)
