"""`sglab.compare`: two launches on the same tensors, and the first store at which they part."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.device import EmulatedDevice
from sglab.gpu.device import Device
from sglab.gpu.errors import LaunchError
from sglab.gpu.relocation import Relocation
from sglab.stepping.comparison import Comparison, Difference, Parting, Store
from sglab.stepping.first_store import first_store

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[..., Any]
Tensors = Mapping[str, "Tensor"]


def compare(
    a: CapturedLaunch,
    b: CapturedLaunch | Device | Function,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    tensors: Tensors | None = None,
) -> Comparison:
    """Runs two kernels, or one on two devices, on the same tensors, and leads to where they part: the tensors and
    the tile that differ, the store of `a` to the differing element that it wrote first, and the store of `b` to the
    same element, with PTX and source line.

    Tensors hold afterwards what they held before.

    Args:
        a: what `sglab.step` gives, or one launch of a capture.
        b: another such launch on the same tensors; a device, where the kernel of `a` runs again, such as
            gpu.CudaDevice(0); or a function, such as a launch on a GPU or a reference, that is called with copies of
            the tensors by name and writes to them.
        rtol, atol: values count as different beyond atol + rtol · |b|; NaN equals NaN.
        tensors: what to compare, by name; those of `a` unless given, which a captured launch does not have.

    Returns:
        what differs; `print` shows it, `.parting.a.open()` is the debugger's session at the store.

    Raises:
        LaunchError: `b` does not work on the tensors of `a`, or cannot be run elsewhere.
        KernelError: a kernel failed.
    """
    if not isinstance(a, CapturedLaunch):
        raise LaunchError(f"a: expected a launch, as sglab.step(kernel[grid], …) gives it; got {type(a).__name__}")
    named = _named(a, tensors)
    a.restore()
    before = {name: tensor.clone() for name, tensor in named.items()}
    try:
        a.run()
        left = {name: tensor.clone() for name, tensor in named.items()}
        _put(named, before)
        other, right = _run(a, b, named)
        differences = tuple(_differences(left, right, rtol, atol))
        parting = _parting(a, other, named, before, differences)
        return Comparison(a.name, _name(a, b), differences, parting)
    finally:
        _put(named, before)


def _named(a: CapturedLaunch, tensors: Tensors | None) -> Tensors:
    """The tensors that are compared.

    Raises:
        LaunchError: there are none, or one is not on the CPU, where the emulator works.
    """
    named = dict(getattr(a, "tensors", {}) if tensors is None else tensors)
    if not named:
        raise LaunchError('tensors: a captured launch has no names for its tensors; give tensors={"out": out}')
    for name, tensor in named.items():
        if tensor.device.type != "cpu":
            raise LaunchError(f"tensors[{name!r}]: expected a CPU tensor of the launch; got one on {tensor.device}")
    return named


def _name(a: CapturedLaunch, b: CapturedLaunch | Device | Function) -> str:
    if isinstance(b, CapturedLaunch):
        return b.name
    name = str(getattr(b, "name", None) or getattr(b, "__name__", type(b).__name__))
    return f"{a.name} on {name}" if hasattr(b, "torch_device") else name


def _put(tensors: Tensors, values: Tensors) -> None:
    for name, value in values.items():
        tensors[name].copy_(value)


def _run(
    a: CapturedLaunch, b: CapturedLaunch | Device | Function, tensors: Tensors
) -> tuple[CapturedLaunch | None, dict[str, Tensor]]:
    """Runs `b`; the launch that can be stepped, if there is one, and what it left in the tensors."""
    if isinstance(b, CapturedLaunch):
        for name, tensor in tensors.items():
            if not any(_holds(span.address, span.nbytes, tensor) for span in b.launch.allocations):
                raise LaunchError(
                    f"b: {b.name} does not work on the tensor {name} of {a.name}; step both on the same tensors"
                )
        shared = {name: tensor.clone() for name, tensor in tensors.items()}
        b.restore()
        _put(tensors, shared)
        other = CapturedLaunch.prepared(b.device, b.launch)
    elif isinstance(b, EmulatedDevice):
        other = CapturedLaunch.prepared(b, a.launch)
    elif hasattr(b, "torch_device"):
        return None, _on_gpu(a, b, tensors)
    elif callable(b):
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
        try:
            inspect.signature(b).bind(**copies)
        except TypeError as error:
            raise LaunchError(
                f"b: the function is called with the tensors of {a.name} by name, {', '.join(copies)}, and with "
                f"nothing else; {error}. Take these, and what else it needs from around it"
            ) from None
        except ValueError:  # a builtin without a signature
            pass
        b(**copies)
        return None, copies
    else:
        raise LaunchError(f"b: expected a launch, a device or a function; got {type(b).__name__}")
    other.run()
    return other, {name: tensor.clone() for name, tensor in tensors.items()}


def _holds(address: int, nbytes: int, tensor: Tensor) -> bool:
    return address <= tensor.data_ptr() < address + nbytes


def _on_gpu(a: CapturedLaunch, device: Any, tensors: Tensors) -> dict[str, Tensor]:
    """The kernel of `a` with copies of the tensors in the GPU's memory."""
    why = "cannot be run on another device; pass a function that launches it there"
    for span in a.launch.spans:
        if span.nbytes and not any(_holds(span.address, span.nbytes, tensor) for tensor in tensors.values()):
            raise LaunchError(f"b: {a.name} works on {span.name}, which is none of {', '.join(tensors)}: it {why}")
    moved = {name: tensor.to(device.torch_device) for name, tensor in tensors.items()}
    try:
        relocation = Relocation(device, a.launch, list(tensors.values()))
    except ValueError as error:
        raise LaunchError(f"b: {error}: it {why}") from None
    device.run(relocation.at([tensor.data_ptr() for tensor in moved.values()], keep=list(moved.values())))
    device.synchronize()
    return {name: tensor.cpu() for name, tensor in moved.items()}


def _differences(left: Tensors, right: Tensors, rtol: float, atol: float) -> list[Difference]:
    return [
        made for name in left if (made := Difference.between(name, left[name], right[name], rtol, atol)) is not None
    ]


def _parting(
    a: CapturedLaunch,
    b: CapturedLaunch | None,
    tensors: Tensors,
    before: Tensors,
    differences: tuple[Difference, ...],
) -> Parting | None:
    """The element that `a` wrote first of all that differ, and who wrote it last in each launch."""
    if not differences:
        return None
    _put(tensors, before)
    found = first_store(a, [(each.tensor, tensors[each.tensor], each.where) for each in differences])
    # What `a` never wrote is where only `b` did.
    name, flat = found or (differences[0].tensor, int(differences[0].where.flatten().nonzero()[0]))
    difference = next(each for each in differences if each.tensor == name)
    stores = []
    for launch in (a, b):
        _put(tensors, before)
        stores.append(None if launch is None else Store.last(launch, tensors[name], flat))
    return Parting(name, *difference.element(flat), *stores)
