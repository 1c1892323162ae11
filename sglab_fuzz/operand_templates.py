"""Operands for every mnemonic of the table: found by trying what the decoder takes, so that no list of them is kept."""

from __future__ import annotations

import itertools
import json
import lzma
import random
from functools import cache
from pathlib import Path

from sglab import _core
from sglab_fuzz.arithmetic.forms import mnemonics

FILE = Path(__file__).with_name("operands.json.xz")
HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
DECLARATIONS = """.global .align 128 .b8 gl[4096];
.visible .func fn(){ret;}
.visible .entry k(.param .u64 out, .param .u64 map, .param .u32 count)
{
.reg .pred %p<9>; .reg .b8 %b<5>; .reg .b16 %h<9>; .reg .b32 %r<140>; .reg .b64 %d<20>; .reg .b128 %q<3>;
.shared .align 1024 .b8 sm[8192];
.shared .align 8 .b64 mb;
.shared .align 8 .b64 mc;
"""
REGISTERS = {"h": ("%h", 9), "r": ("%r", 30), "d": ("%d", 8), "p": ("%p", 9), "q": ("%q", 3), "b": ("%b", 5)}
ADDRESSES = {"S": "[sm]", "G": "[%d10]", "M": "[mb]", "s": "[%r120]", "L": "[%r121]", "N": "[gl]", "P": "[out]"}
"""[%d10] is global, [%r120] shared, [%r121] an address in tensor memory, mb an initialised mbarrier."""
TARGETS = "TAB: .branchtargets LABEL, E0, LABEL, E0;\n"
"""What brx.idx chooses from; the text has both labels."""
_SIZES = "hrd"


def _vector(letter: str, count: int, first: int = 0) -> str:
    name, most = REGISTERS[letter]
    most = 120 if letter == "r" else most
    return "{" + ", ".join(f"{name}{(first + k) % most}" for k in range(count)) + "}"


@cache
def candidates() -> tuple[tuple[str, ...], ...]:
    """Operand lists to try, likelier ones first. A letter is a register or an address; other texts stay as they are."""
    lists: list[tuple[str, ...]] = [()]
    for count in (1, 2, 3, 4):
        for to in "hrdpqb":
            for source in _SIZES:
                lists.append((to, *(source,) * count))
    lists += [(a, b, c) for a in "hrd" for b in "hrd" for c in "hrd"]
    lists += [(a, b, c, d) for a in "hrdp" for b in "hrd" for c in "hrd" for d in "hrdp"]
    lists += [
        ("r", "r", "r", "r", "0x1b"),
        ("r|%p2", "r", "r", "r", "0x1b", "p"),
        ("d", "d", "d", "d", "r"),
        ("r", "r", "r", "r", "r"),
        ("d", "d", "d", "r", "r"),
    ]
    lists += [("p", "p"), ("p", "p", "p"), ("p|%p2", "h", "h"), ("p|%p2", "r", "r"), ("p|%p2", "d", "d")]
    lists += [("p|%p2", *(s,) * 2, "p") for s in _SIZES] + [("p", *(s,) * 2, "p") for s in _SIZES]
    lists += [(a,) for a in "hrdpb"] + [(a, b) for a in "hrdqb" for b in ("b", "h", "r", "d", "q", "p")]
    lists += [
        ("b", "r", "r"),
        ("r", "b"),
        ("r", "h"),
        ("r", "r", "r", "-1"),
        ("r|%p2", "r", "r", "r", "-1"),
        ("p", "r", "-1"),
    ]
    lists += [
        ("r|%p2", "r", "-1"),
        ("r", "p", "-1"),
        ("p", "p", "-1"),
        ("r|%p2", "-1"),
        ("r", "r", "-1"),
        ("-1",),
        ("r", "d", "-1"),
    ]
    for address in ADDRESSES:
        lists += [(a, address) for a in "bhrdqp"] + [(address, a) for a in "bhrdq"] + [(address,)]
        lists += [(a, address, b) for a in "hrdq_" for b in "hrdq"] + [
            (a, address, b, b) for a in "hrdq" for b in "hrdq"
        ]
        lists += [(address, a, b) for a in "rdh" for b in "rdh"]
        for letter, count in itertools.product("bhrd", (1, 2, 4, 8)):
            if count <= 4 or letter in "hrd":
                vector = _vector(letter, count)
                lists += [(vector, address), (address, vector), (vector, address, _vector(letter, count, 3))]
        lists += [(address, other, "16") for other in ADDRESSES] + [(address, other, "r") for other in ADDRESSES]
        lists += [(address, other, "16", "M") for other in ADDRESSES] + [
            (address, other, "16", "d") for other in ADDRESSES
        ]
        lists += [(address, other, "16", "M", "d") for other in ADDRESSES] + [(address, "16"), (address, "16", "d")]
        lists += [(address, other, "16", "M", "h") for other in ADDRESSES]
        lists += [(address, other, "16", "M", "h", "d") for other in ADDRESSES]
        lists += [("p", address, x) for x in ("r", "d", "0")] + [("p", address, x, "r") for x in ("r", "d", "0")]
        lists += [("_", address), ("_", address, "r"), ("d", address, "r"), ("d", address, "d", "r"), (address, "1")]
        lists += [(address, "0x2", "r"), (address, "0", "r"), (address, "r"), (address, "d"), (address, "128")]
        lists += [(address, other, "128") for other in ADDRESSES] + [(address, "32"), ("p", address, "0")]
        lists += [(address, a, "M") for a in "rd"] + [(address, _vector(a, n), "M") for a in "rd" for n in (2, 4)]
        for letter, count in itertools.product("hrd", (2, 4, 8)):
            lists.append((_vector(letter, count), address, _vector(letter, count, 3), "d"))
            lists.append((address, _vector(letter, count), "d"))
    for dims in range(1, 6):
        place = "[%d11, " + _vector("r", dims) + "]"
        gather = "[%d11, " + _vector("r", 5) + "]"
        for at in (place, gather):
            for tail in ([], ["d"], ["h"], ["h", "d"], [_vector("h", 1)], [_vector("h", 2)], [_vector("h", 3)]):
                lists += [
                    ("[sm]", at, "[mb]", *tail),
                    ("[sm]", at, "[mb]", *tail, "d"),
                    (at, "[sm]", *tail),
                    (at, *tail),
                ]
    for count in (1, *range(2, 130, 2)):
        registers = _vector("r", count)
        lists += [
            (registers, "L"),
            ("L", registers),
            (registers, "L", "16"),
            ("L", "16", registers),
            ("L", "1", registers),
            (registers, "r", "L"),
            (registers, "r", "L", "16"),
        ]
        for tail in (("d", "d"), (_vector("r", 4, 2), "d")):
            for flags in (("p", "1", "1"), ("p", "1", "1", "0", "0"), ("p", "1", "1", "0"), ("1", "1", "1", "0", "0")):
                lists += [(registers, *tail, *flags), (registers, *tail, "p")]
                lists += [(registers, *tail, "r", "0", *flags), (registers, *tail, "r", "0", "p")]  # sparse
    for counts in itertools.product((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8)):
        for letter in "rd":
            lists.append(tuple(_vector(letter, c, k) for k, c in enumerate(counts)))
            lists.append((*(_vector(letter, c, k) for k, c in enumerate(counts)), "r", "0"))
    lists += [("L", "d", "d", "r", "p"), ("L", "L", "d", "r", "p"), ("L", "d", "d", "r", "L", "L", "p"), ("L", "d")]
    lists += [("L", "d", "d", "r", "p", "0"), ("L", "d", "d", "L", "r", "p"), ("L", "L", "d", "L", "r", "p")]
    lists += [("L", "d", "d", "r", _vector("r", 4), "p"), ("L", "d", "d", "r", _vector("r", 8), "p")]
    lists += [
        ("L", "L", "d", "r", _vector("r", 4), "p"),
        ("L", "d", "d", "L", "r", "L", "L", "p"),
        ("L", "L", "d", "L", "r", "L", "L", "p"),
    ]
    lists += [("L", "L", "d", "r", "L", "L", "p"), ("L", "d", "d", "r", "p", "d"), ("L", "d", "d", "L", "r", "p", "d")]
    lists += [
        ("[sm]", "32"),
        ("%r121", "32"),
        ("r", "32"),
        ("M", "h"),
        ("[sm]", "r"),
        ("0",),
        ("1", "64"),
        ("1", "r"),
        ("8",),
        ("24",),
    ]
    lists += [
        ("0", "p"),
        ("r", "0", "p"),
        ("p", "0", "p"),
        ("r", "0", "64", "p"),
        ("p", "0", "64", "p"),
        ("LABEL",),
        ("fn",),
        ("(fn)",),
    ]
    lists += [
        ("r", "%tid.x"),
        ("d", "%clock64"),
        ("d", "r", "0x3f800000"),
        ("d", "0f3F800000"),
        ("d", "0f3F800000", "r"),
        ("r", "TAB"),
        ("[sm]", "d", "0"),
        ("p", "q"),
        (_vector("r", 4), "q"),
        ("r", _vector("r", 4, 3), "r"),
        ("h", _vector("r", 4, 3), "r"),
    ]
    return tuple(dict.fromkeys(lists))


def written(operands: tuple[str, ...], rng: random.Random | None = None) -> str:
    """Operands as text, with registers drawn at random, or the first ones."""
    out = []
    for position, each in enumerate(operands):
        letter, _, rest = each.partition("|")
        if letter in REGISTERS:
            name, most = REGISTERS[letter]
            out.append(f"{name}{rng.randrange(most) if rng else position + 1}" + (f"|{rest}" if rest else ""))
        else:
            out.append(ADDRESSES.get(each, each))
    return ", ".join(out)


def taken(mnemonic: str, operands: tuple[str, ...]) -> bool:
    """Whether the decoder takes them."""
    text = f"{HEADER}{DECLARATIONS}{TARGETS}{mnemonic} {written(operands)};\nLABEL: E0: ret;\n}}\n"
    try:
        return not _core.Module(text).kernel("k").unsupported
    except _core.PtxError:
        return False


def of_row(pattern: str, known: list[tuple[str, ...]], most: int = 8) -> list[tuple[str, tuple[str, ...]]]:
    """Mnemonics of a row with operands that they take.

    Args:
        known: lists that rows before took, which are tried first, the latest before the others; grows.
    """
    every = list(itertools.islice(mnemonics(pattern), 20_000))
    random.Random(pattern).shuffle(every)
    found = []
    for mnemonic in every[:most]:
        for operands in (*reversed(known), *candidates()):
            if taken(mnemonic, operands):
                found.append((mnemonic, operands))
                if operands in known:
                    known.remove(operands)
                known.append(operands)
                break
    return found


@cache
def table() -> tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]:
    """Per row of the table, mnemonics with operands; brought up to date by `python -m sglab_fuzz.operand_templates`."""
    rows = json.loads(lzma.decompress(FILE.read_bytes()))
    return tuple(tuple((mnemonic, tuple(operands)) for mnemonic, operands in row) for row in rows.values() if row)


def main() -> None:
    """Keep the operands that the decoder still takes, look for those of other rows, and say which rows have none."""
    rows: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    kept = {
        pattern: [(mnemonic, tuple(operands)) for mnemonic, operands in row]
        for pattern, row in json.loads(lzma.decompress(FILE.read_bytes())).items()
    }
    known: list[tuple[str, ...]] = []
    for _, pattern, _ in _core.instruction_forms():
        row = kept.get(pattern, [])
        rows[pattern] = row if row and all(taken(*entry) for entry in row) else of_row(pattern, known)
        if not rows[pattern]:
            print(f"no operands: {pattern}")
    FILE.write_bytes(lzma.compress(json.dumps(rows).encode(), preset=9))
    print(f"{len(rows)} rows, {sum(map(len, rows.values()))} mnemonics, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
