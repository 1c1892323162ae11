"""Writes docs/api.md: what each package of sglab offers, read from the packages themselves.

python docs/update_api.py            # --check: only say whether it is up to date
"""

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_origin

import sglab

PAGE = Path(__file__).parent / "api.md"
TOP = ("Engine", "attend", "compare", "cuda", "cute", "decode_batch", "extend_batch", "ptx", "step", "trace")
ROOMS = ("planning", "layouts", "gpu", "compilers", "events", "emulator", "roofline", "cudart", "triton", "kernels")
ROOMS += ("engine",)
ROOMS += ("layers", "models", "attention", "serving", "workbench", "widgets", "stepping", "scale", "labs", "classroom")

HEAD = """# Public names

Written by `python docs/update_api.py` from the packages' `__all__`. These names, and the attributes that their
docstrings document, are what sglab promises to keep; modules below the packages may be imported, but move without
notice until 1.0.

Errors: every refusal names the argument, what was expected, what came and what to do.
"""


def sentence(thing: object) -> str:
    """The first sentence of a docstring, on one line; of a value, its type."""
    if get_origin(thing) is Annotated:
        return "an annotation of a gpu.Struct's member"
    own = inspect.getdoc(thing) if callable(thing) or isinstance(thing, ModuleType) else None
    if not own or (inspect.isclass(thing) and not thing.__dict__.get("__doc__")):
        return f"a {type(thing).__name__}" if not callable(thing) else ""
    first = " ".join(own.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) ", first)[0].rstrip(".").replace("|", "\\|")


def signature(name: str, thing: Any) -> str:
    """`name(first, second, …)` of a function, the bare name of anything else."""
    if not inspect.isfunction(thing):
        return name
    names = [
        ("*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else "") + one.name
        for one in inspect.signature(thing).parameters.values()
    ]
    shown = names if len(names) <= 6 else [*names[:5], "…"]
    return f"{name}({', '.join(shown)})"


def table(package: ModuleType, names: tuple[str, ...] | list[str]) -> list[str]:
    rows = ["| Name | What it is |", "|---|---|"]
    return rows + [
        f"| `{signature(name, getattr(package, name))}` | {sentence(getattr(package, name))} |" for name in names
    ]


def page() -> str:
    parts = [HEAD, "## `sglab`\n", "\n".join(table(sglab, TOP))]
    for room in ROOMS:
        package = importlib.import_module(f"sglab.{room}")
        doc = (package.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
        parts += [f"\n## `sglab.{room}`\n", doc, "", "\n".join(table(package, sorted(package.__all__)))]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    fresh = page()
    if "--check" in sys.argv and (not PAGE.exists() or fresh != PAGE.read_text()):
        sys.exit("docs/api.md is out of date: run python docs/update_api.py")
    PAGE.write_text(fresh)
