"""Small kernels whose modelled time can be worked out by hand."""

from typing import Any

import torch

from sglab import gpu
from sglab.events.log import EventLog

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"


def kernel(body: str, registers: str = "", shared: int = 0) -> gpu.Kernel:
    """An entry with a 64-bit pointer `%out`, the thread's index `%t` and `body`."""
    memory = f".shared .align 1024 .b8 memory[{shared}];" if shared else ""
    text = f"""{HEADER}
.visible .entry test(.param .u64 out)
{{
  .reg .b64 %out, %address; .reg .b32 %t; .reg .pred %p; {registers} {memory}
  ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %address, %t, 4; add.s64 %address, %address, %out;
{body}
  ret;
}}
"""
    return gpu.Module(text, "test.ptx")["test"]


def record(made: gpu.Kernel, grid: int = 1, block: int = 32, elements: int = 65_536, **sizes: Any) -> EventLog:
    out = torch.zeros(elements + 32, dtype=torch.float32)
    out = out[-out.data_ptr() // 4 % 32 :][:elements]  # from a cache line's first byte
    return made.record(gpu.EmulatedDevice("sm_90a"), grid=grid, block=block, args=[out], **sizes)


def chain(opcode: str, count: int, chains: int = 1) -> gpu.Kernel:
    """`count` instructions on each of `chains` registers, every one needing the one before."""
    lines = [f"  {opcode} %f{i}, %f{i}, %f{i}, %f{i};" for _ in range(count) for i in range(chains)]
    return kernel("\n".join(lines), f".reg .f32 %f<{chains}>;")


def events_of(log: EventLog, opcode: str) -> Any:
    """Numbers of the events whose opcode starts so."""
    chosen = [row[1].startswith(opcode) for row in log.code.rows]
    return torch.tensor(chosen).numpy()[log.pc].nonzero()[0]
