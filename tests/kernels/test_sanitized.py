"""Our CUDA kernels under every sanitizer and scheduler: nothing to find. And without its synchronisation there is."""

import re
from typing import Any

import pytest
import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.captures import capturing_launches
from sglab.gpu import Device, KernelError, Launch, Module
from sglab.kernels import devices, merge_state, merge_states, ptx
from sglab.kernels.mla import MlaSm90, MlaSm100, sm100_contract
from sglab.kernels.mla import arguments as mla_arguments
from sglab.labs.mla_hopper import Call
from sglab.planning.mla_sm90 import mla_sm90_plan
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.kernels.decode_batches import SCALE, Batch

CASES = [
    pytest.param({"lengths": [300, 0, 65], "page_size": 128}, 1, id="page 128"),
    pytest.param({"lengths": [200, 1, 0, 129], "page_size": 16, "heads": 100}, 3, id="page 16, splits"),
    pytest.param({"lengths": [500], "page_size": 64, "dtype": torch.bfloat16, "spread": 30.0}, 2, id="peaked"),
]


def findings(device: Device, launches: list[Launch]) -> list[str]:
    return [str(finding) for launch in launches for finding in device.run(launch).findings]


def blackwell(batch: Batch, device: Device, splits: int) -> tuple[list[Launch], Any]:
    decode = MlaSm100(device, len(batch.lengths), batch.q_nope.shape[1], splits, "persistent")
    tensors = (batch.q_nope, batch.q_pe, batch.kv_cache, batch.page_table, SCALE, None, None, "e")
    arguments = sm100_contract.check(batch.seq_lens, None, splits, None, *tensors)
    return decode.prepare(arguments), arguments.decode


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("case", "splits"), CASES)
def test_blackwell(case: dict[str, Any], splits: int, scheduler: str) -> None:
    device = EmulatedDevice("sm_100a", sms=4, scheduler=scheduler, sanitize=True)
    batch = Batch(**case)
    launches, result = blackwell(batch, device, splits)
    assert findings(device, launches) == []
    batch.check(result.out, result.lse)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("case", "splits"), CASES)
def test_hopper(case: dict[str, Any], splits: int, scheduler: str) -> None:
    device = EmulatedDevice("sm_90a", sms=4, scheduler=scheduler, sanitize=True)
    batch = Batch(**case)
    heads = batch.q_nope.shape[1]
    limit = -(-max(batch.lengths) // 64 // splits)
    decode = MlaSm90(device, mla_sm90_plan(batch.lengths, num_heads=heads, sm_count=4, limit=limit), heads)
    tensors = (batch.q_nope, batch.q_pe, batch.kv_cache, batch.page_table, SCALE, None, None, "e")
    arguments = mla_arguments.check("mla_decode_sm90", *tensors)
    assert findings(device, decode.prepare(arguments)) == []
    batch.check(arguments.out, arguments.lse)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize(("implementation", "place"), [("sglab", "hopper_of"), ("sglab_sm100", "device_of")])
def test_causal_query_tokens(implementation: str, place: str, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan, attention with parts in which a query token has nothing to see, and combine."""
    arch = "sm_90a" if implementation == "sglab" else "sm_100a"
    device = EmulatedDevice(arch, sms=8, scheduler=scheduler, sanitize=True, on_finding="raise")
    monkeypatch.setattr(devices, place, lambda _: device)
    call = Call([130, 0, 67, 3], num_heads=16, query_tokens=4)
    out, lse = call.run(causal=True, implementation=implementation)
    assert (lse[1] == -torch.inf).all() and (lse[3, :, 0] == -torch.inf).all() and not out[3, 0].any()
    for request, length in ((0, 130), (2, 67)):
        for token in range(4):
            exact = call.exact(request, token, length - 3 + token)
            torch.testing.assert_close(out[request, token].double(), exact, atol=1e-2, rtol=1e-2)


def test_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    device = EmulatedDevice("sm_90a", scheduler="random", sanitize=True)
    monkeypatch.setattr(devices, "device_of", lambda _: device)
    v, s = torch.randn(40, 3, 128), torch.randn(40, 3)
    with capturing_launches() as launches:
        merge_state(v, s, v, s, implementation="cuda")
        merge_states(v.view(10, 4, 3, 128), s.view(10, 4, 3), implementation="cuda")
    assert [(launch.device, launch.report.findings) for launch in launches] == [(device, ())] * 2


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        (r"bar\.sync \t?%r\d+, %r\d+;", "write_after_read_race"),  # softmax: the exchange of maxima
        (r"fence\.proxy\.async\.shared::cta;", "missing_proxy_fence"),  # P and cleared V, read by tcgen05.mma
        (r"tcgen05\.wait::st\.sync\.aligned;", "missing_tensor_wait"),  # the rescaled O
    ],
)
def test_without_its_synchronisation_the_sanitizers_say_so(
    instruction: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, removed = re.subn(instruction, "", ptx.text("mla_decode_sm100"))
    assert removed > 0
    monkeypatch.setattr(ptx, "module", lambda name: Module(text, name))
    device = EmulatedDevice("sm_100a", sms=2, sanitize=True)
    launches, _ = blackwell(Batch([400, 200], page_size=64, spread=4.0), device, 1)
    try:
        found = {finding.kind for finding in device.run(launches[0]).findings}
    except KernelError as error:
        found = {finding.kind for finding in error.findings}
    assert kind in found
