"""Rooflines: arithmetic from shapes against sums by hand, counts from event logs against both, machines, measuring."""

from __future__ import annotations

import math

import pytest
import torch

import sglab
from sglab import gpu, roofline
from sglab.roofline import MACHINES, Machine, Point, Work
from sglab.workbench import Batch


def mla_batch(num_heads: int = 128, seq_lens: tuple[int, ...] = (512,)) -> Batch:
    return sglab.decode_batch(list(seq_lens), num_heads=num_heads, page_size=128, dtype="float16", seed=0)


def test_decode_is_two_products_per_head_and_reads_the_cache_once() -> None:
    work = roofline.decode([3, 5], num_heads=4, num_kv_heads=2, head_dim=8)
    assert work.flops == {"bf16": 2 * (2 * 4 * 8 * (3 + 5))}
    assert work.nbytes == 2 * (2 * 2 * 8 * (3 + 5)) + 2 * (2 * 2 * 4 * 8)
    narrow = roofline.decode([3, 5], num_heads=4, num_kv_heads=2, head_dim=8, kv_dtype="float8_e4m3fn")
    assert work.nbytes - narrow.nbytes == 2 * 2 * 8 * (3 + 5)
    drafts = roofline.decode([3, 5], num_heads=4, num_kv_heads=2, head_dim=8, q_len=3, dtype=torch.float32)
    assert drafts.flops == {"fp32": 3 * work.flops["bf16"]}


def test_prefill_counts_what_a_causal_mask_leaves() -> None:
    seen = torch.ones(4, 6).tril(2).sum().item()  # four new tokens after a prefix of two
    work = roofline.prefill(4, 2, num_heads=6, num_kv_heads=3, head_dim=8)
    assert work.flops == {"bf16": 4 * 6 * 8 * seen}
    assert work.nbytes == 2 * 8 * (2 * 3 * 6 + 2 * 6 * 4)
    both = roofline.prefill([4, 4], [2, 2], num_heads=6, num_kv_heads=3, head_dim=8)
    assert both == work + work


def test_mla_decode_of_128_heads_is_just_left_of_an_h100s_ridge() -> None:
    """1088 multiplications per head and token over 1152 bytes per token."""
    work = roofline.mla_decode([1_000_000])
    place = MACHINES["H100"].place(work)
    assert place.intensity == pytest.approx(2 * 128 * 1088 / 1152, rel=1e-3)
    assert place.bound == "memory" and place.intensity < MACHINES["H100"].ridge() < 1.25 * place.intensity
    assert MACHINES["H200"].place(work).bound == "compute"


def test_a_place_is_the_lower_of_both_roofs_and_names_it() -> None:
    machine = Machine("X", "X", "", tuple(roofline.Ceiling(k, v, "") for k, v in (("memory", 10), ("bf16", 100))))
    for flops, seconds, bound in ((50, 1.0, "memory"), (200, 2.0, "compute")):
        place = machine.place(Work({"bf16": flops}, 10))
        assert (place.seconds, place.bound) == (seconds, bound)
        assert place.attainable == flops / seconds and place.intensity == flops / 10
    assert machine.ridge() == 10
    with pytest.raises(ValueError, match="a published peak for"):
        machine.place(Work({"fp8": 1}, 1))
    with pytest.raises(ValueError, match="no FLOPs"):
        machine.place(Work({}, 1))


def test_every_ceiling_names_its_source_and_agrees_with_the_timing_model() -> None:
    for machine in MACHINES.values():
        assert all(each.source.startswith("NVIDIA") and each.rate > 0 for each in machine.ceilings)
        assert {"memory", "bf16", "fp8", "fp32"} <= set(machine.by_kind)
        if machine.arch:
            from sglab.events.timing import figures_of

            figures = figures_of(machine.arch)
            macs = figures["tcgen05_macs"] if machine.arch == "sm_100" else 4 * figures["tensor_macs"]
            modelled = 2 * macs * figures["sms"] * figures["clock"] * 1e9
            assert modelled == pytest.approx(machine.by_kind["bf16"].rate, rel=0.1)
            reached = figures["hbm_rate"] * figures["clock"] * 1e9 / machine.bandwidth
            assert 0.9 < reached <= 1


def test_counts_of_a_recorded_launch_are_those_of_the_shapes() -> None:
    pytest.importorskip("triton")
    ((launch, log),) = roofline.launches_of(sglab.trace(mla_batch(), backend="cutlass_mla"))
    counted, shapes = roofline.count(log), roofline.mla_decode([512])
    assert counted.flops["bf16"] == shapes.flops["bf16"]
    assert counted.nbytes == pytest.approx(shapes.nbytes, rel=0.01)
    assert counted.requested_bytes is not None and counted.requested_bytes > 1.5 * counted.nbytes
    assert "mla_decode" in launch.name


def test_padded_heads_are_counted() -> None:
    """16 heads in a tile of 128: the tensor cores multiply all rows."""
    pytest.importorskip("triton")
    ((_, log),) = roofline.launches_of(sglab.trace(mla_batch(num_heads=16), backend="cutlass_mla"))
    assert roofline.count(log).flops["bf16"] == 8 * roofline.mla_decode([512], num_heads=16).flops["bf16"]


SAXPY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry saxpy(.param .u64 x, .param .u64 y) {
  .reg .b32 %r<4>; .reg .f32 %f<6>; .reg .b64 %d<6>; .reg .pred %p;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 128, %r2;
  mul.wide.u32 %d1, %r3, 4;
  ld.param.u64 %d2, [x]; ld.param.u64 %d3, [y];
  add.s64 %d4, %d2, %d1; add.s64 %d5, %d3, %d1;
  ld.global.f32 %f1, [%d4]; ld.global.f32 %f2, [%d5];
  fma.rn.f32 %f3, %f1, 0f40000000, %f2; ex2.approx.f32 %f4, %f3; add.f32 %f5, %f3, %f4;
  st.global.f32 [%d5], %f5;
  ret;
}
"""


def saxpy_log(count: int = 4096) -> sglab.events.EventLog:
    x, y = torch.ones(count), torch.ones(count)
    kernel = gpu.load(SAXPY)["saxpy"]
    return kernel.record(sglab.emulator.EmulatedDevice("sm_90a"), grid=count // 128, block=128, args=[x, y])


def test_a_kernel_without_tensor_cores_counts_lanes_and_lines() -> None:
    counted = roofline.count(saxpy_log())
    assert counted.flops == {"fp32": 3 * 4096}  # an fma and an addition; ex2 is none
    assert counted.nbytes == pytest.approx(4096 * 4 * 3, rel=0.01)  # x and y come, y goes
    assert counted.requested_bytes == 4096 * 4 * 3


def test_a_recorded_launch_has_points_for_its_counts_and_for_each_modelled_machine() -> None:
    points = roofline.recorded_points(saxpy_log(), "saxpy")
    assert [(point.origin, point.machine) for point in points] == [
        ("emulated", ""),
        ("modelled", "H100"),
        ("modelled", "B200"),
    ]
    for point in points[1:]:
        assert point.seconds is not None and point.seconds > MACHINES[point.machine].place(point.work).seconds


def test_what_has_no_place_is_refused() -> None:
    with pytest.raises(ValueError, match="flops: expected keys of"):
        Work({"bfloat16": 1.0}, 1)
    with pytest.raises(ValueError, match="nbytes above 0"):
        Work({}, 0)
    work = Work({"bf16": 1.0}, 1)
    with pytest.raises(ValueError, match="needs seconds above 0"):
        Point("p", work, "measured")
    with pytest.raises(ValueError, match="has no time"):
        Point("p", work, "arithmetic", 1.0)
    with pytest.raises(ValueError, match="origin: expected one of"):
        Point("p", work, "guessed")  # type: ignore[arg-type]
    for call, message in (
        (lambda: roofline.decode([0]), "seq_lens: expected"),
        (lambda: roofline.decode([1], num_heads=6, num_kv_heads=4), "a divisor of num_heads=6"),
        (lambda: roofline.decode([1], dtype="int8"), "dtype: expected one of"),
        (lambda: roofline.prefill([1, 2], [3]), "prefix_lens: expected 2 integers"),
        (lambda: roofline.mla_decode([1], num_heads=0), "num_heads: expected"),
        (lambda: roofline.machine_of("A100"), "machine: expected one of H100, H200, B200"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_measuring_without_a_gpu_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="l2: expected"):
        roofline.measure(lambda: None, l2="hot")  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="recorded_points gives modelled time"):
            roofline.measure(lambda: None)


def test_planning_kernels_of_a_capture_are_left_out() -> None:
    pytest.importorskip("triton")
    names = [launch.name for launch, _ in roofline.launches_of(sglab.trace(mla_batch(), backend="triton"))]
    assert names == ["decode_grouped_stage1_kernel", "decode_stage2_kernel"]


def test_strided_and_repeated_accesses_count_each_sector_once() -> None:
    """Each lane reads 4 bytes, 64 apart; every CTA reads the same."""
    ptx = SAXPY.replace("mul.wide.u32 %d1, %r3, 4", "mul.wide.u32 %d1, %r2, 64")
    x, y = torch.ones(128 * 16), torch.ones(128 * 16)
    kernel = gpu.load(ptx)["saxpy"]
    log = kernel.record(sglab.emulator.EmulatedDevice("sm_90a"), grid=3, block=128, args=[x, y])
    counted = roofline.count(log)
    assert counted.nbytes == 3 * 128 * 32 and counted.requested_bytes == 3 * 3 * 128 * 4


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_copy_is_measured_below_the_published_bandwidth() -> None:
    source = torch.empty(2**28, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    timing = roofline.measure(lambda: target.copy_(source), repeats=20)
    rate = 2 * source.nbytes / timing.median
    machine = next((each for name, each in MACHINES.items() if name in timing.device), None)
    if machine is not None:
        assert 0.5 * machine.bandwidth < rate < machine.bandwidth
    assert math.isclose(timing.median, sorted(timing.samples)[10], rel_tol=0.2)
    point = roofline.measured_point(lambda: target.copy_(source), Work({"bf16": 1.0}, 2.0**29), "copy", l2="warm")
    assert point.origin == "measured" and "warm L2" in point.how
