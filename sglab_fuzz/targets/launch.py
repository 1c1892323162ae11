"""The launch interface under hostile arguments: everything is refused by name or runs."""

from __future__ import annotations

import ast
import math
import random
from typing import Any

import numpy as np
import torch

from sglab import gpu

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry plain(.param .u64 x, .param .u32 n, .param .f32 f, .param .s16 h, .param .f64 g, .param .u8 b)
.maxntid 128
{ .reg .b64 %d; ld.param.u64 %d, [x]; ret; }
.visible .entry structs(.param .align 8 .b8 s[24], .param .align 64 .b8 map[128], .param .u64 y)
{ ret; }
.visible .entry fixed(.param .u64 x) .reqntid 64, 2 .reqnctapercluster 2
{ ret; }
.visible .entry empty() { ret; }
"""
VALUES = [
    "0",
    "1",
    "-1",
    "2",
    "31",
    "128",
    "129",
    "1024",
    "1025",
    "65535",
    "65536",
    "2**31-1",
    "2**31",
    "2**32",
    "2**63",
]
VALUES += [
    "2**64",
    "-2**63",
    "10**400",
    "-10**400",
    "0.0",
    "1.5",
    "-0.0",
    "1e300",
    "inf",
    "-inf",
    "nan",
    "True",
    "False",
]
VALUES += [
    "None",
    "'x'",
    "''",
    "b''",
    "b'12345678'",
    "bytes(24)",
    "bytearray(8)",
    "[]",
    "[1]",
    "(1,)",
    "(1, 2, 3)",
    "(1, 2, 3, 4)",
]
VALUES += [
    "(0, 1, 1)",
    "(1.5, 1)",
    "{}",
    "{'a': 1}",
    "set()",
    "1j",
    "tensor8",
    "tensor0",
    "half",
    "double",
    "strided",
    "conj",
]
VALUES += [
    "negative",
    "meta",
    "sparse",
    "boolean",
    "numpy8",
    "numpy0",
    "Strided",
    "Struct",
    "TensorMap",
    "object",
    "lambda",
    "range3",
]
VALUES += [
    "device",
    "kernel",
    "config",
    "requires",
    "slice",
    "nested",
    "int64",
    "float32",
    "uint8",
    "np_bool",
    "surrogate",
]
OPTIONS = ["grid", "block", "cluster", "smem", "args", "extra"]
DEVICE = ["arch", "sms", "threads", "scheduler", "seed", "max_instructions", "sanitize", "on_finding"]
LOADS = ["'nothing.ptx'", "'/'", "''", "None", "3", "b'x'", "'.version 8.0\\n.target sm_90\\n'", "surrogate"]


def value(name: str) -> Any:
    """The object that a word stands for."""
    made: dict[str, Any] = {
        "tensor8": lambda: torch.zeros(8),
        "tensor0": lambda: torch.zeros(0),
        "half": lambda: torch.zeros(8, dtype=torch.float16),
        "double": lambda: torch.zeros((2, 4), dtype=torch.float64),
        "strided": lambda: torch.zeros(8, 8)[:, ::2],
        "conj": lambda: torch.zeros(8, dtype=torch.complex64).conj(),
        "negative": lambda: torch._neg_view(torch.zeros(8)),
        "meta": lambda: torch.zeros(8, device="meta"),
        "sparse": lambda: torch.zeros(8, 8).to_sparse(),
        "boolean": lambda: torch.zeros(8, dtype=torch.bool),
        "numpy8": lambda: np.zeros(8),
        "numpy0": lambda: np.zeros(0),
        "Strided": lambda: gpu.Strided(3),  # type: ignore[arg-type]
        "Struct": lambda: gpu.Struct,
        "TensorMap": lambda: gpu.TensorMap(torch.zeros(64, 64), (8, 8)),
        "object": object,
        "lambda": lambda: lambda: None,
        "range3": lambda: range(3),
        "device": lambda: gpu.EmulatedDevice("sm_90a", sms=1),
        "kernel": lambda: gpu.Module(PTX)["empty"],
        "config": lambda: gpu.LaunchConfig(1),
        "requires": lambda: torch.zeros(8, requires_grad=True),
        "slice": lambda: slice(0, 3),
        "nested": lambda: [[[1]]],
        "int64": lambda: np.int64(3),
        "float32": lambda: np.float32(3),
        "uint8": lambda: np.uint8(255),
        "np_bool": lambda: np.bool_(True),
        "surrogate": lambda: "\ud800\n.version .target",
        "inf": lambda: math.inf,
        "-inf": lambda: -math.inf,
        "nan": lambda: math.nan,
        "bytes(24)": lambda: bytes(24),
        "bytearray(8)": lambda: bytearray(8),
        "set()": set,
    }
    if name in made:
        return made[name]()
    base, power, exponent = name.partition("**")
    if power:
        exponent, minus, _ = exponent.partition("-")
        return int(base) ** int(exponent) - (1 if minus else 0) if base[0] != "-" else -(int(base[1:]) ** int(exponent))
    return ast.literal_eval(name)


class LaunchTarget:
    """A case has one `name = value` per line; `kernel` says which entry is launched."""

    name = "launch"
    unit = "launches"

    def __init__(self) -> None:
        self.module = gpu.Module(PTX)
        self.device = gpu.EmulatedDevice("sm_90a", sms=2, max_instructions=100_000)

    def make(self, rng: random.Random, number: int) -> str:
        kernel = rng.choice(["plain", "plain", "structs", "fixed", "empty"])
        count = len(self.module[kernel].params)
        lines = [
            f"kernel {kernel}",
            f"how {rng.choice(['launch', 'launch', 'record', 'session', 'prepare', 'device', 'load'])}",
        ]
        good = ["tensor8", "3", "1.5", "-7", "2.5", "1"] if kernel == "plain" else ["bytes(24)", "TensorMap", "tensor8"]
        for k in range(max(count + rng.choice([0, 0, 0, 0, 1, -1]), 0)):
            lines.append(f"args {rng.choice(VALUES) if rng.random() < 0.35 else good[k % len(good)]}")
        if rng.random() < 0.1:
            lines.append(f"args= {rng.choice(VALUES)}")
        options = {"grid": "2", "block": "(64, 2)" if kernel == "fixed" else "32"}
        for name in rng.sample([*OPTIONS[:4], "extra", "nonsense"], rng.choice([0, 1, 1, 2])):
            options[name] = rng.choice(VALUES)
        lines += [f"{name} {each}" for name, each in options.items()]
        for name in rng.sample([*DEVICE, "nonsense"], rng.choice([1, 2])):
            lines.append(f"device.{name} {rng.choice([*VALUES, 'True'])}")
        lines.append(f"load {rng.choice(LOADS)}")
        return "".join(f"{line}\n" for line in lines)

    def run(self, text: str) -> int:
        words = [line.split(" ", 1) for line in text.splitlines()]
        plain = {name: rest for name, rest in words if name in ("kernel", "how", "load")}
        try:
            self._go(plain, words)
        except (gpu.GpuError, gpu.KernelError):
            pass
        except TypeError as error:
            if "unexpected keyword argument" not in str(error) and "positional argument" not in str(error):
                raise
        except FileNotFoundError:
            pass
        return 1

    def _go(self, plain: dict[str, str], words: list[list[str]]) -> None:
        if plain.get("how") == "load":
            gpu.load(value(plain.get("load", "''")))
            return
        if plain.get("how") == "device":
            options = {name[7:]: value(rest) for name, rest in words if name.startswith("device.")}
            gpu.EmulatedDevice(**options)
            return
        kernel = self.module[plain.get("kernel", "plain")]
        arguments: Any = [value(rest) for name, rest in words if name == "args"]
        for name, rest in words:
            if name == "args=":
                arguments = value(rest)
        options = {name: value(rest) for name, rest in words if name in (*OPTIONS[:4], "extra", "nonsense")}
        how = getattr(kernel, plain.get("how", "launch"))
        made = how(self.device, args=arguments, **options)
        if plain.get("how") == "session":
            made.run()


def target(device: str) -> LaunchTarget:
    return LaunchTarget()
