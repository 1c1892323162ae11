"""sglab: see LLM-serving attention kernels work on your own tensors."""

import sys
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_LAZY = {
    **dict.fromkeys(
        ("attend", "decode_batch", "extend_batch", "prompt_batch", "step_batch", "trace"), "sglab.workbench"
    ),
    **dict.fromkeys(("compare", "cuda", "cute", "ptx", "step"), "sglab.stepping"),
    "Engine": "sglab.serving",
}
"""Name -> module that is imported when the name is first used: `import sglab` stays fast and needs no torch."""

_PACKAGES = {
    "attention",
    "classroom",
    "compilers",
    "cudart",
    "emulator",
    "engine",
    "events",
    "gpu",
    "jupyterlab",
    "kernels",
    "labs",
    "layers",
    "layouts",
    "models",
    "planning",
    "roofline",
    "scale",
    "serving",
    "stepping",
    "triton",
    "widgets",
    "workbench",
}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module 'sglab' has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_PACKAGES})


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext sglab`, which importing sglab in a notebook does by itself: the cell magic %%cuda."""

    def cuda_cell(line: str, cell: str) -> None:
        import_module("sglab.stepping.magic").cuda_cell(shell, line, cell)

    shell.register_magic_function(cuda_cell, "cell", "cuda")


if (_ipython := sys.modules.get("IPython")) is not None and (_shell := _ipython.get_ipython()) is not None:
    load_ipython_extension(_shell)
