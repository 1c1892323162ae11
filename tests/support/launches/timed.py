"""The MLA kernels that ship, recorded and timed."""

from functools import cache

import torch

from sglab import gpu
from sglab.events.log import EventLog
from sglab.events.timing import TimedLog
from sglab.kernels.mla import MlaSm90, MlaSm100
from sglab.kernels.mla.arguments import check as check_sm90
from sglab.kernels.mla.sm100_contract import check as check_sm100
from sglab.planning.mla_sm90 import mla_sm90_plan


@cache
def mla(arch: str, tokens: int = 512) -> tuple[EventLog, TimedLog]:
    device = gpu.EmulatedDevice(f"{arch}a")
    q_nope, q_pe = (torch.randn(1, 128, dim, dtype=torch.float16) for dim in (512, 64))
    page = 64 if arch == "sm_90" else 128
    cache = torch.randn(tokens // page, page, 576, dtype=torch.float16)
    table = torch.arange(tokens // page, dtype=torch.int32)[None]
    decode = (torch.cat([q_nope, q_pe], -1), cache, table)
    if arch == "sm_90":
        made = MlaSm90(device, mla_sm90_plan([tokens], num_heads=128, sm_count=132), 128)
        q = decode[0]
        launch = made.prepare(check_sm90("test", q[..., :512], q[..., 512:], cache, table, 0.07, None, None, "e"))[0]
    else:
        lengths = torch.tensor([tokens], dtype=torch.int32)
        arguments = check_sm100(lengths, None, 1, None, q_nope, q_pe, cache, table, 0.07, None, None, "e")
        launch = MlaSm100(device, 1, 128).prepare(arguments)[0]
    log = device.record(launch)
    return log, log.timed(arch)
