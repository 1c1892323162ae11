"""The labs of the course, one module each, imported when first asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from sglab.labs.lab import Lab

MODULES = {
    "01": "page_table",
    "02": "paged_allocator",
    "03": "radix_tree",
    "04": "split_planner",
    "05": "online_softmax",
    "06": "retraction",
    "07": "draft_tree",
    "08": "moe_align",
    "09": "two_stage_decode",
    "10": "swizzle",
    "11": "pipeline",
    "12": "fused_rescale",
    "13": "tensor_tile",
    "14": "ten_bugs",
    "15": "capstone",
}


@cache
def lab(name: str) -> Lab:
    """A lab by its number ("03" or "3"), its name or its folder.

    Raises:
        ValueError: there is none.
    """
    for number, module in MODULES.items():
        if name in (number, number.lstrip("0"), module, f"{number}_{module}"):
            found: Lab = import_module(f"sglab.labs.coursework.{module}").LAB
            return found
    raise ValueError(f"lab: expected a number from {min(MODULES)} to {max(MODULES)} or a name; got {name!r}")


def labs() -> list[Lab]:
    """All, in the order of the course."""
    return [lab(number) for number in MODULES]
