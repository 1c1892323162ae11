"""sglab.trace: the kernels behind an attention call, stepped and recorded, their warps with the roles of the source."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab import gpu
from sglab.events.log import MBARRIER
from sglab.kernels.mla import mla_decode_sm90


def batch(**shape: Any) -> Any:
    shape = {"seq_lens": [70, 5], "num_heads": 128, "page_size": 64, "dtype": "float16", "seed": 0, **shape}
    return sglab.decode_batch(**shape)


def test_a_trace_holds_the_launches_and_what_attend_returns() -> None:
    expected = sglab.attend(batch(), backend="cutlass_mla")
    launches = sglab.trace(batch(), backend="cutlass_mla")
    assert torch.equal(launches.result, expected)
    assert launches.main.name.startswith("mla_decode_sm100")
    log = launches.record()
    assert len(log) == launches.main.report.warp_instructions
    assert torch.equal(launches.result, expected)


def test_the_blackwell_kernels_roles_and_barriers_have_their_names() -> None:
    session = sglab.trace(batch(seq_lens=[300]), backend="cutlass_mla").session()
    roles = session.roles
    assert set(roles.names) == {"softmax", "epilogue", "mma", "load", "page table"}
    issuers = {session.log.warp[event] for event in session.log.mmas.event.tolist()}
    assert issuers == {warp for _, warp in roles.warps("mma")}
    names = {one.name.split("[")[0] for one in roles.barriers if one.kind == MBARRIER}
    assert {"load→mma full", "mma→load empty", "page table→load full"} <= names
    stop = session.next_event(role="mma", kind="mma")
    assert stop.at.instruction.opcode.startswith("tcgen05.mma")


@pytest.fixture(scope="module")
def hopper() -> gpu.Capture:
    generator = torch.Generator().manual_seed(0)
    q_nope, q_pe, kv = (
        torch.randn(*shape, generator=generator).half() for shape in ((1, 128, 512), (1, 128, 64), (3, 64, 576))
    )
    pages = torch.tensor([[2, 0, 1]], dtype=torch.int32)
    device = gpu.EmulatedDevice("sm_90a", sms=4)
    return gpu.capture(lambda: mla_decode_sm90(device, q_nope, q_pe, kv, [150], pages, sm_scale=192**-0.5))


def test_the_hopper_kernels_warps_load_or_multiply_and_take_exponentials(hopper: gpu.Capture) -> None:
    log = hopper.record()
    issuers = {int(log.warp[event]) for event in log.copies.event.tolist()}
    exponents = [at.pc for at in log.code if at.opcode.startswith("ex2")]
    math = {int(warp) for pc in exponents for warp in log.warp[log.pc == pc]}
    assert {warp for _, warp in log.roles.warps("load")} >= issuers
    assert {warp for _, warp in log.roles.warps("math")} | {warp for _, warp in log.roles.warps("softmax")} == math
    names = {one.name.split("[")[0] for one in log.roles.barriers if one.kind == MBARRIER}
    assert any(name.startswith("load→") and name.endswith("full") for name in names)


def test_the_hopper_kernel_has_the_same_state_at_a_position_however_it_is_reached(hopper: gpu.Capture) -> None:
    session = hopper.session()
    digests = {0: session.digest}
    while not session.over:
        session.step(count=211)
        digests[session.now] = session.digest
    expected = hopper.result[0].clone()
    order = torch.randperm(len(digests), generator=torch.Generator().manual_seed(1)).tolist()
    positions = list(digests)
    for at in order:
        session.seek(positions[at])
        assert session.digest == digests[positions[at]]
    session.run()
    assert torch.equal(hopper.result[0], expected)


def test_a_batch_whose_backend_runs_in_torch_says_so() -> None:
    with pytest.raises(gpu.LaunchError, match="nothing was launched on an emulated device"):
        sglab.trace(batch(num_heads=4), backend="torch_native")
