"""Two floats in a 64-bit register: Blackwell computes with both at once (`fma.rn.f32x2`), and compilers pack and unpack
them by moves. The emulator looks at the halves; which pair a half came out of is followed here."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sglab.emulator.register_types import Statement

PACK = re.compile(r"^mov\.b64 (%\w+), *\{(.*)\};?$")
UNPACK = re.compile(r"^mov\.b64 \{.*\}, *(%\w+);?$")
PAIR = "f32x2"


class Pairs:
    """Which 64-bit registers hold two floats: by what computes with them, or by a half that is one.

    Attributes:
        sources: of each that is packed, unpacked or computed with as a pair, those that it is computed from.
    """

    def __init__(self, statements: Iterable[Statement]) -> None:
        self.sources: dict[str, set[str]] = {}
        self._computed: set[str] = set()
        self._packs: list[tuple[str, list[str]]] = []
        copies: list[tuple[str, str]] = []
        for mnemonic, operands in statements:
            listed = [list(each) for each in operands]
            if PAIR in mnemonic.split(".") and listed and listed[0]:
                self._computed.update(register for each in listed for register in each)
                self.sources.setdefault(listed[0][0], set()).update(*listed[1:])
            elif mnemonic == "mov.b64" and len(listed) == 2:
                left, right = listed
                for pair, halves in ((left, right), (right, left)):
                    if len(pair) == 1 and len(halves) == 2:
                        self._packs.append((pair[0], halves))
                if len(left) == len(right) == 1:
                    copies.append((left[0], right[0]))
        for register in self._computed.union(pair for pair, _ in self._packs):
            self.sources.setdefault(register, set())
        for to, source in copies:
            if to in self.sources or source in self.sources:
                self.sources.setdefault(to, set()).add(source)
                self.sources.setdefault(source, set())

    def tell(self, kinds: dict[str, str]) -> None:
        """Adds the halves of pairs of f32 to what is known of registers."""
        floats = self._computed | {pair for pair, halves in self._packs if "f32" in map(kinds.get, halves)}
        for _ in range(4):
            for to, sources in self.sources.items():
                if floats & {to, *sources}:
                    floats |= {to, *sources}
        for pair, halves in self._packs:
            if pair in floats:
                for half in halves:
                    kinds.setdefault(half, "f32")

    def packed(self, text: str) -> str:
        """The pair that an instruction makes of two halves, or ""."""
        found = PACK.match(text)
        return found[1] if found and found[1] in self.sources else ""

    def unpacked(self, text: str) -> str:
        """The pair that an instruction takes apart, or ""."""
        found = UNPACK.match(text)
        return found[1] if found and found[1] in self.sources else ""

    def behind(self, register: str) -> list[str]:
        """The pair, and after it those that it was computed from, directly or by others."""
        found = [register]
        for each in found:
            found += sorted(self.sources.get(each, set()) - {*found})
        return found
