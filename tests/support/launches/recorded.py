"""Launches for the tests of widgets that draw recordings: the MLA kernels that ship, on one short request."""

from __future__ import annotations

from functools import cache

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.events.log import EventLog
from sglab.gpu.device import Launch
from sglab.kernels.mla import MlaSm90, MlaSm100
from sglab.kernels.mla.arguments import check as check_sm90
from sglab.kernels.mla.sm100_contract import check as check_sm100
from sglab.planning.mla_sm90 import mla_sm90_plan

HEADS, PAGE = 128, 64
SCALE = 192**-0.5


@cache
def mla_sm100(tokens: int = 256, requests: int = 1) -> EventLog:
    device, launch, _keep = _sm100(tokens, requests)
    return device.record(launch)


def mla_sm100_session(tokens: int = 256) -> Session:
    device, launch, keep = _sm100(tokens, 1)
    return device.session(launch, keep)


@cache
def mla_sm90(tokens: int = 256) -> EventLog:
    device = EmulatedDevice("sm_90a", sms=2)
    q_nope, q_pe, kv_cache, page_table = _batch(tokens, 1)
    decode = MlaSm90(device, mla_sm90_plan([tokens], num_heads=HEADS, sm_count=2), HEADS)
    arguments = check_sm90("mla_decode_sm90", q_nope, q_pe, kv_cache, page_table, SCALE, None, None, "e")
    return device.record(decode.prepare(arguments)[0])


def _sm100(tokens: int, requests: int) -> tuple[EmulatedDevice, Launch, object]:
    device = EmulatedDevice("sm_100a", sms=2 * requests)
    q_nope, q_pe, kv_cache, page_table = _batch(tokens, requests)
    decode = MlaSm100(device, requests, HEADS)
    lengths = torch.full((requests,), tokens, dtype=torch.int32)
    query = (q_nope, q_pe, kv_cache, page_table, SCALE, None, None, "e")
    arguments = check_sm100(lengths, None, 1, None, *query)
    return device, decode.prepare(arguments)[0], (decode, arguments)


def _batch(tokens: int, requests: int) -> tuple[torch.Tensor, ...]:
    pages = -(-tokens // PAGE)
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).mul_(0.3).half()

    table = torch.arange(requests * pages, dtype=torch.int32).view(requests, pages)
    return random(requests, HEADS, 512), random(requests, HEADS, 64), random(requests * pages, PAGE, 576), table
