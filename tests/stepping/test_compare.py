"""`sglab.compare`: it leads from two launches to the first store at which they part."""

import pytest

torch = pytest.importorskip("torch")
import sglab
from sglab import gpu
from sglab.stepping import KernelLaunch

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
KERNEL = """.visible .entry {name}(.param .u64 x, .param .u64 out)
{{
  .reg .pred %p<3>; .reg .b32 %r<5>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.s32 %r3, %r2, 64, %r1;
  mul.wide.s32 %rd3, %r3, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd5], %f2;
  {more}
  ret;
}}
"""
# CTA 2's second warp stores a second time.
AGAIN = """setp.eq.s32 %p1, %r2, 2;
  setp.ge.and.s32 %p2, %r1, 40, %p1;
  @%p2 add.f32 %f2, %f2, 0f3F800000;
  @%p2 st.global.f32 [%rd5], %f2;"""


def launch(name: str = "twice", more: str = "", x=None, out=None) -> KernelLaunch:
    kernel = sglab.ptx(HEADER + KERNEL.format(name=name, more=more))
    return sglab.step(kernel[4, 64], x, out)


@pytest.fixture
def tensors():
    torch.manual_seed(5)
    return torch.randn(4, 64), torch.zeros(4, 64)


def parted(tensors, a, b, **tolerances):
    return sglab.compare(a, b, tensors=dict(zip(("x", "out"), tensors, strict=True)), **tolerances)


def test_launches_that_leave_the_same_are_equal(tensors) -> None:
    x, out = tensors
    found = parted(tensors, launch(x=x, out=out), launch("again", "", x, out))
    assert found.equal and found.parting is None
    assert str(found) == "twice and again leave the same"


def test_it_names_the_tile_the_element_and_both_stores(tensors) -> None:
    x, out = tensors
    found = parted(tensors, launch(x=x, out=out), launch("again", AGAIN, x, out))
    (difference,) = found.differences
    assert difference.tensor == "out" and difference.tile == ((2, 2), (40, 63)) and difference.count == 24
    assert difference.largest == pytest.approx(1, abs=1e-5)
    parting = found.parting
    assert parting.index == (2, 40)
    assert (parting.left, parting.right) == (2 * x[2, 40].item(), (2 * x[2, 40] + 1).item())
    assert (parting.a.place.cta, parting.a.place.warp) == (2, 1) == (parting.b.place.cta, parting.b.place.warp)
    assert parting.b.place.instruction.text.startswith("@%p2 st.global.f32")
    assert not parting.a.place.instruction.text.startswith("@")
    assert "out[2:3, 40:64]: 24 of 256 elements differ" in str(found)
    assert f"PTX line {parting.b.place.instruction.ptx_line}" in str(found)


def test_the_store_opens_as_a_session_that_stands_there(tensors) -> None:
    x, out = tensors
    found = parted(tensors, launch(x=x, out=out), launch("again", AGAIN, x, out))
    session = found.parting.b.open()
    assert session.now == found.parting.b.position
    assert session.global_access(1, 0, 2).writes and torch.equal(out[2, 40:], 2 * x[2, 40:])


def test_tensors_are_as_before_also_where_one_launch_has_run(tensors) -> None:
    x, out = tensors
    a = launch(x=x, out=out)
    a.run()
    b = launch("again", AGAIN, x, out)
    found = parted(tensors, a, b)
    assert not found.equal and not out.any()


def test_a_function_is_the_other_side_and_tolerances_count(tensors) -> None:
    x, out = tensors

    def near(x, out) -> None:
        out.copy_(2 * x + 1e-4)

    found = parted(tensors, launch(x=x, out=out), near)
    assert found.differences[0].count == 256 and found.parting.b is None
    assert found.parting.a.place.instruction.text.startswith("st.global.f32")
    assert parted(tensors, launch(x=x, out=out), near, atol=1e-3).equal


def test_a_nan_is_equal_to_a_nan_only(tensors) -> None:
    x, out = tensors
    x[1, 3] = torch.nan
    assert parted(tensors, launch(x=x, out=out), launch("again", "", x, out)).equal
    found = parted(tensors, launch(x=x, out=out), lambda x, out: out.copy_(2 * x.nan_to_num(7)), atol=1e9)
    assert found.parting.index == (1, 3) and found.parting.right == 14


def test_one_kernel_on_two_emulated_gpus(tensors) -> None:
    x, out = tensors
    race = "mov.u32 %r4, %ctaid.x; cvt.rn.f32.u32 %f3, %r4; st.global.f32 [%rd2], %f3;"
    a = launch("race", race, x, out)
    found = parted(tensors, a, gpu.EmulatedDevice("sm_100a", scheduler="random", seed=3))
    assert found.equal or found.parting.index == (0, 0)
    assert parted(tensors, launch(x=x, out=out), gpu.EmulatedDevice("sm_100a", scheduler="adversarial")).equal


def test_bulk_stores_part_too(tensors) -> None:
    x, out = tensors
    bulk = """.visible .entry {name}(.param .u64 x, .param .u64 out)
{{
  .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<6>; .shared .align 128 .b8 tile[256];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r3, tile;
  shl.b32 %r4, %r1, 2;
  add.s32 %r4, %r4, %r3;
  st.shared.b32 [%r4], {value};
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 ret;
  mov.u32 %r2, %ctaid.x;
  mul.wide.s32 %rd3, %r2, 256;
  add.s64 %rd5, %rd2, %rd3;
  cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r3], 256;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}}
"""
    made = [
        sglab.step(sglab.ptx(HEADER + bulk.format(name=name, value=value))[4, 64], x, out)
        for name, value in (("ones", "0x3F800000"), ("twos", "0x40000000"))
    ]
    found = sglab.compare(*made)
    parting = found.parting
    assert parting.tensor == "arg1"  # PTX has no better name
    assert (parting.left, parting.right) == (1, 2) and parting.a is not None and parting.b is not None


def test_what_does_not_fit_is_refused_by_name(tensors) -> None:
    x, out = tensors
    a = launch(x=x, out=out)
    with pytest.raises(gpu.LaunchError, match="does not work on the tensor out"):
        parted(tensors, a, launch("other", "", x, torch.zeros(4, 64)))
    with pytest.raises(gpu.LaunchError, match=r'expected a launch, a device, "interpreter" or a function; got int'):
        sglab.compare(a, 3)
    with pytest.raises(gpu.LaunchError, match="a parameter n, which is no tensor"):
        parted(tensors, a, lambda x, out, n: None)
    with pytest.raises(gpu.LaunchError, match=r"expected a launch, as sglab\.step"):
        sglab.compare(x, a)


def test_a_function_gets_the_tensors_that_it_takes(tensors) -> None:
    x, out = tensors
    assert parted(tensors, launch(x=x, out=out), lambda out: out.copy_(2 * x)).equal
    assert parted(tensors, launch(x=x, out=out), lambda out, scale=2, **more: out.copy_(scale * more["x"])).equal
    with pytest.raises(gpu.LaunchError, match=r"a parameter scale, which is no tensor of the launch; .* with x, out"):
        parted(tensors, launch(x=x, out=out), lambda out, scale: None)


def test_a_notebook_shows_what_print_does(tensors) -> None:
    formatter = pytest.importorskip("IPython.lib.pretty")
    x, out = tensors
    found = parted(tensors, launch(x=x, out=out), launch("again", AGAIN, x, out))
    assert formatter.pretty(found) == str(found)
    assert str(found).endswith(".parting.a.open() stands at the store")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_the_same_kernel_on_the_gpu_and_here(tensors) -> None:
    x, out = tensors
    device = gpu.CudaDevice(0)
    text = (HEADER + KERNEL.format(name="twice", more="")).replace("sm_100a", str(device.arch))
    a = sglab.step(sglab.ptx(text)[4, 64], x, out, device=gpu.EmulatedDevice(str(device.arch)))
    assert parted(tensors, a, device).equal
