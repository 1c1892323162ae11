"""Texts of modules for sm_100a."""

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def entry(body: str, registers: int = 99) -> str:
    """A module whose only kernel, k, has this body."""
    declared = f".reg .pred %p<9>; .reg .b32 %r<{registers}>; .reg .b64 %d<9>;\n"
    return f"{HEADER}.visible .entry k()\n{{\n{declared}{body}\nret;\n}}\n"
