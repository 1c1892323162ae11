"""`sglab.compare`: two launches on the same tensors, and the first store at which they part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.device import EmulatedDevice
from sglab.events.cluster.columns import readable
from sglab.gpu.device import Device
from sglab.gpu.errors import LaunchError
from sglab.gpu.relocation import Relocation
from sglab.stepping.comparison import Comparison, Difference, Parting, Store
from sglab.stepping.first_store import addresses, first_store
from sglab.stepping.launch import Interpreted

if TYPE_CHECKING:
    from torch import Tensor

Function = Callable[..., Any]
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
Other = CapturedLaunch | Device | Function | Literal["interpreter"]
Tensors = Mapping[str, "Tensor"]


def compare(
    a: CapturedLaunch,
    b: Other,
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
            gpu.CudaDevice(0); "interpreter", where a Triton kernel runs again under Triton's interpreter; or a
            function, such as a launch on a GPU or a reference, that is called with copies of those tensors that it has
            parameters for, by name, and writes to them.
        rtol, atol: values count as different beyond atol + rtol · |b|; NaN equals NaN.
        tensors: what to compare, by name; those of `a` unless given, which a captured launch does not have.

    Returns:
        what differs; `print` shows it, `.parting.trace()` goes back to the instruction at which they part,
        `.parting.a.open()` is the debugger's session at the store.

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
        return Comparison(readable(a.name), _name(a, b), differences, parting)
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


def _name(a: CapturedLaunch, b: Other) -> str:
    if isinstance(b, CapturedLaunch):
        return readable(b.name)
    if isinstance(b, str):
        return f"{readable(a.name)} under Triton's interpreter"
    name = str(getattr(b, "name", None) or getattr(b, "__name__", type(b).__name__))
    return f"{readable(a.name)} on {name}" if hasattr(b, "torch_device") else name


def _put(tensors: Tensors, values: Tensors) -> None:
    for name, value in values.items():
        tensors[name].copy_(value)


def _run(
    a: CapturedLaunch, b: Other, tensors: Tensors
) -> tuple[CapturedLaunch | Interpreted | None, dict[str, Tensor]]:
    """Runs `b`; the launch whose stores can be found, if there is one, and what it left in the tensors."""
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
    elif isinstance(b, str):
        interpreted = _interpreted(a, b)
        interpreted.run()
        return interpreted, {name: tensor.clone() for name, tensor in tensors.items()}
    elif hasattr(b, "torch_device"):
        return None, _on_gpu(a, b, tensors)
    elif callable(b):
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
        b(**_taken(b, copies))
        return None, copies
    else:
        raise LaunchError(f'b: expected a launch, a device, "interpreter" or a function; got {type(b).__name__}')
    other.run()
    return other, {name: tensor.clone() for name, tensor in tensors.items()}


def _taken(function: Function, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those of the tensors that a function takes.

    Raises:
        LaunchError: it needs what is no tensor of the launch.
    """
    try:
        parameters = signature(function).parameters.values()
    except (TypeError, ValueError):  # of some built-in functions there is none
        return tensors
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return tensors
    needed = [each for each in parameters if each.default is Parameter.empty and each.kind in _NAMED]
    lacking = [each.name for each in needed if each.name not in tensors]
    if lacking:
        raise LaunchError(
            f"b: the function has a parameter {lacking[0]}, which is no tensor of the launch; it is called with "
            f"{', '.join(tensors)} by name, as far as it takes them"
        )
    return {each.name: tensors[each.name] for each in parameters if each.name in tensors}


def _interpreted(a: CapturedLaunch, word: str) -> Interpreted:
    if word != "interpreter":
        raise LaunchError(f'b: expected a launch, a device, "interpreter" or a function; got {word!r}')
    found: Interpreted | None = getattr(a, "interpreted", None)
    if found is None:
        raise LaunchError(f'b: "interpreter" runs Triton kernels; {a.name} is none that sglab.step was given')
    return found


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
    b: CapturedLaunch | Interpreted | None,
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
    _put(tensors, before)
    left = Store.last(a, tensors[name], flat)
    _put(tensors, before)
    right = _last_store(b, tensors[name], flat)
    address = int(addresses(tensors[name])[flat]) + difference.first_byte(flat)
    return Parting(name, *difference.element(flat), left, right, address)


def _last_store(launch: CapturedLaunch | Interpreted | None, tensor: Tensor, flat: int) -> Store | Any:
    if launch is None or isinstance(launch, CapturedLaunch):
        return None if launch is None else Store.last(launch, tensor, flat)
    return launch.last_store(int(addresses(tensor)[flat]), tensor.element_size())
