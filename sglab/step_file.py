"""What `sglab step` does: a kernel from a file, arguments from words, and the debugger in a browser."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import sys
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sglab.gpu.errors import LaunchError
from sglab.gpu.names import source_name

if TYPE_CHECKING:
    from sglab.emulator.captures import Capture, CapturedLaunch
    from sglab.widgets import Widget

WIDGETS = ("KernelDebugger", "WarpRoles", "Barriers", "SharedMemory", "TensorMemory", "NanSpread")
DEFAULT_BLOCK = (128,)
FILE_HELP = (
    "kernel.cu, kernel.ptx, or file.py::function (Triton, Gluon, Numba, CuTe DSL); a file's only kernel or function "
    "needs no name"
)
SPECIFICATIONS = (
    "randn:1024:float32 (or rand, zeros, ones, arange, randint; a shape such as 2x3 or 2,3, a torch dtype), "
    "load:file.npy, a number, none; NAME=… for a parameter by name"
)


def dims(text: str) -> tuple[int, ...]:
    """`4`, `2,8` or `2x8x1` as sizes."""
    sizes = re.fullmatch(r"\d+(?:[,x]\d+){0,2}", text)
    if sizes is None:
        raise argparse.ArgumentTypeError(f"expected one to three sizes, such as 4 or 2,8; got {text!r}")
    return tuple(map(int, re.split("[,x]", text)))


def add_step_options(step: argparse.ArgumentParser) -> None:
    step.add_argument("file", help=FILE_HELP)
    add_launch_options(step)
    step.add_argument("--widget", action="append", choices=WIDGETS, help="default: KernelDebugger; may be repeated")
    step.add_argument("--port", type=int, default=0, help="of the page; a free one if not given")
    step.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    step.add_argument("--html", type=Path, metavar="FILE", help="write a self-contained page instead, and end")


def add_launch_options(step: argparse.ArgumentParser) -> None:
    """How a kernel of a file is launched, and what it is given."""
    step.add_argument("--kernel", metavar="NAME", help="where the file has several; a part of the name will do")
    step.add_argument("--grid", type=dims, default=(1,), metavar="X,Y,Z", help="CTAs; default: 1")
    step.add_argument(
        "--block", type=dims, metavar="X,Y,Z", help="threads of a CTA; default: what the kernel prescribes, else 128"
    )
    step.add_argument(
        "--cluster", type=dims, metavar="X,Y,Z", help="CTAs of a cluster; default: what the kernel prescribes, else 1"
    )
    step.add_argument("--smem", type=int, default=0, metavar="BYTES", help="dynamic shared memory; default: 0")
    step.add_argument(
        "--arg", action="append", default=[], metavar="SPEC", help=f"in the kernel's order: {SPECIFICATIONS}"
    )
    step.add_argument("--arch", default="sm_100a", help="GPU to emulate; default: %(default)s, a B200")
    step.add_argument("--option", action="append", default=[], metavar="-DNAME=1", help="for nvcc")
    step.add_argument("--include", action="append", default=[], metavar="FOLDER", help="for nvcc")
    step.add_argument("--seed", type=int, default=0, help="of random arguments; default: %(default)s")


def step_file(options: argparse.Namespace) -> None:
    """Opens the page and waits until Ctrl-C.

    Raises:
        GpuError, ValueError, OSError: naming the option or the argument.
    """
    from sglab import widgets
    from sglab.emulator.captures import Capture
    from sglab.events.cluster.columns import readable
    from sglab.widgets.live import LivePage

    if options.html is not None and not options.html.parent.is_dir():
        raise LaunchError(f"--html: expected a file in a folder that exists; got {options.html}")
    launch = launch_of(options)
    if isinstance(launch, Capture):
        launch = launch.main
    shown: list[Widget] = [_widget(getattr(widgets, name), launch) for name in options.widget or WIDGETS[:1]]
    title = f"{readable(launch.name)}: sglab"
    if options.html is not None:
        options.html.write_text(widgets.html_page(shown, title), encoding="utf-8")
        print(f"wrote {options.html}")
        return
    with LivePage(shown, title, options.port) as page:
        print(f"{page.address}\nCtrl-C ends it", flush=True)
        if not options.no_browser:
            webbrowser.open(page.address)
        try:
            page.wait()
        except KeyboardInterrupt:
            print()


def _widget(kind: type[Widget], launch: CapturedLaunch) -> Widget:
    tensors = getattr(launch, "tensors", None)
    return kind(launch, **({"tensors": tensors} if tensors and kind.__name__ == "KernelDebugger" else {}))  # type: ignore[call-arg]


def launch_of(options: argparse.Namespace) -> CapturedLaunch | Capture:
    """The launch that the command line asks for, not run where that can be helped."""
    return launch_from(options.file, options, *arguments(options.arg, options.seed))


def launch_from(
    file: str, options: argparse.Namespace, args: list[Any], named: dict[str, Any]
) -> CapturedLaunch | Capture:
    """The same of a file, as FILE or FILE::NAME, on arguments that are there already."""
    from sglab import gpu, stepping

    device = gpu.EmulatedDevice(options.arch, sanitize=True)
    place, _, name = file.partition("::")
    path = Path(place)
    if path.suffix == ".py":
        return _python(attribute(path, name), options, device, args, named)
    if path.suffix not in (".cu", ".ptx"):
        raise LaunchError(f"file: expected a .cu or .ptx file, or file.py::function; got {file!r}")
    if named:
        raise LaunchError(f"--arg {next(iter(named))}=…: kernels of {path.suffix} files take arguments by position")
    if path.suffix == ".cu":
        program = stepping.cuda(path, options.arch, options.option, options.include)
    else:
        program = stepping.ptx(path)
    names = list(program)
    wanted = name or options.kernel
    if wanted is None and len(names) > 1:
        listed = ", ".join(shlex.quote(source_name(name)) for name in names)
        raise LaunchError(f"--kernel: {path.name} has {len(names)} kernels; choose one of {listed}")
    kernel = program[wanted or names[0]]
    block = options.block or program.module(options.arch)[kernel.name].signature.reqntid or DEFAULT_BLOCK
    config = gpu.LaunchConfig(options.grid, block, options.cluster, options.smem)
    return stepping.step(kernel[config], *args, device=device)


def is_kernel(function: Any) -> bool:
    """Whether it is launched and not called: Triton's, Gluon's, Numba's, the CuTe DSL's."""
    from sglab.stepping.triton import is_triton

    return is_triton(function) or _is_numba(function) or _is_cute(function)


def _is_numba(function: Any) -> bool:
    return type(function).__module__.startswith(("numba.", "numba_cuda."))


def _is_cute(function: Any) -> bool:
    return hasattr(function, "_dsl_cls")  # what the CuTe DSL's decorators leave on a function


def _python(
    function: Any, options: argparse.Namespace, device: Any, args: list[Any], named: dict[str, Any]
) -> CapturedLaunch | Capture:
    """A kernel of a Python module; or a plain function, which is called and whose launches are caught."""
    from sglab.emulator.captures import Capture, CapturedLaunch, capture
    from sglab.stepping import cute, step
    from sglab.stepping.triton import is_triton, launched_on

    if is_triton(function):
        return step(function, options.grid, *args, device=device, **named)
    if _is_numba(function):
        configured = function[options.grid, options.block or DEFAULT_BLOCK, 0, options.smem]
        return step(configured, *args, device=device, **named)
    if _is_cute(function):
        return step(cute(function), *args, device=device, **named)
    if not callable(function):
        raise LaunchError(f"file: expected a kernel or a function; got {type(function).__name__}")
    made: list[Any] = []
    plain_triton = launched_on(device) if "triton" in sys.modules else nullcontext()
    try:
        with plain_triton:
            caught = capture(lambda: made.append(function(*args, **named)))
    except LaunchError:
        if made and isinstance(made[0], CapturedLaunch | Capture):
            return made[0]
        raise
    return made[0] if isinstance(made[0], CapturedLaunch | Capture) else caught


def load_module(path: Path) -> ModuleType:
    """Runs a Python file as a module of its name, beside the others of its folder.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"file: {path} does not exist")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise LaunchError(f"file: expected a Python file, FILE.py; got {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # Triton looks there for a kernel's globals
    sys.path.insert(0, str(path.parent.resolve()))
    spec.loader.exec_module(module)
    return module


def attribute(path: Path, name: str) -> Any:
    """What a Python file calls `name`; without one, its only function."""
    module = load_module(path)
    if name and hasattr(module, name):
        return getattr(module, name)
    own = {each: value for each, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
    functions = {each: value for each, value in own.items() if callable(value) and not isinstance(value, type)}
    if not name and len(functions) == 1:
        return next(iter(functions.values()))
    listed = ", ".join(map(shlex.quote, functions)) or "no function"
    if name:
        raise LaunchError(f"file: {path.name} has no {name!r}; it has {listed}")
    raise LaunchError(f"file: expected {path.name}::function, of {listed}; got {path.name!r}")


def arguments(specifications: Sequence[str], seed: int) -> tuple[list[Any], dict[str, Any]]:
    """The values of `--arg`, by position and by name."""
    import torch

    torch.manual_seed(seed)
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for text in specifications:
        name = re.match(r"([A-Za-z_]\w*)=", text)
        value = _value(text[name.end() :] if name else text)
        if name:
            named[name[1]] = value
        else:
            positional.append(value)
    return positional, named


def _value(text: str) -> Any:
    import numpy as np
    import torch

    if text == "none":
        return None
    if text in ("true", "false"):
        return text == "true"
    for number in (lambda: int(text, 0), lambda: float(text)):
        try:
            return number()
        except ValueError:
            pass
    kind, _, rest = text.partition(":")
    if kind == "load":
        try:
            return torch.from_numpy(np.load(rest, allow_pickle=False))
        except (OSError, ValueError, TypeError) as error:
            raise LaunchError(f"--arg {text}: expected a file of NumPy's, FILE.npy, of numbers: {error}") from error
    shape, _, dtype_name = rest.partition(":")
    dtype = getattr(torch, dtype_name or "float32", None)
    make = _MAKERS.get(kind)
    if make is None:
        raise LaunchError(f"--arg: expected {SPECIFICATIONS}; got {text!r}{_meant(kind, [*_MAKERS, 'load', 'none'])}")
    if re.fullmatch(r"\d+(?:[x,]\d+)*", shape) is None:
        raise LaunchError(f"--arg {text}: expected a shape after {kind}:, such as 1024 or 2x3; got {shape!r}")
    if not isinstance(dtype, torch.dtype):
        near = _meant(dtype_name, [name for name, value in vars(torch).items() if isinstance(value, torch.dtype)])
        raise LaunchError(f"--arg {text}: expected a torch dtype, such as float32 or int64; got {dtype_name!r}{near}")
    return make(tuple(map(int, re.split("[x,]", shape)))).to(dtype)


def _meant(given: str, known: Sequence[str]) -> str:
    near = get_close_matches(given, known, 1)
    return f". Did you mean {near[0]}?" if near else ""


def _arange(shape: tuple[int, ...]) -> Any:
    import math

    import torch

    return torch.arange(math.prod(shape)).reshape(shape)


def _torch(name: str) -> Callable[[tuple[int, ...]], Any]:
    def make(shape: tuple[int, ...]) -> Any:
        import torch

        return getattr(torch, name)(shape)

    return make


def _randint(shape: tuple[int, ...]) -> Any:
    import torch

    return torch.randint(0, 100, shape)


_MAKERS: dict[str, Callable[[tuple[int, ...]], Any]] = {
    **{name: _torch(name) for name in ("randn", "rand", "zeros", "ones")},
    "arange": _arange,
    "randint": _randint,
}
