"""Random PTX: modules with declarations, functions and bodies after the grammar, and mutations of texts."""

from __future__ import annotations

import lzma
import random
import re
from functools import cache

from sglab import _core
from sglab_fuzz.arithmetic.forms import mnemonics
from sglab_fuzz.process import ROOT

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
EXTREMES = ["0", "1", "-1", "2", "31", "32", "63", "64", "127", "128", "255", "256", "65535", "65536", "0x7fffffff"]
EXTREMES += ["0x80000000", "0xffffffff", "4294967296", "2147483648", "-2147483648", "9223372036854775807"]
EXTREMES += ["-9223372036854775808", "18446744073709551615", "18446744073709551616", "0f7F800000", "0fFFC00000"]
EXTREMES += ["0d7FF0000000000000", "0f3F8", "1e400", "0b11", "0777", "0x", "1.5", "-0.0", "9" * 40]
LONGEST_TOKEN = 100_000
"""Characters: a repeated token may be drawn again, and three times a thousandfold would be gigabytes."""
TOKEN = re.compile(r"\s+|[\w$%.:]+|[^\w\s]")
SCALARS = [
    "b8",
    "u8",
    "s8",
    "b16",
    "u16",
    "f16",
    "bf16",
    "b32",
    "u32",
    "s32",
    "f32",
    "b64",
    "u64",
    "s64",
    "f64",
    "b128",
]
DIRECTIVES = [
    ".maxntid 256",
    ".reqntid 32, 1, 1",
    ".minnctapersm 2",
    ".maxnreg 64",
    ".noreturn",
    ".reqnctapercluster 2",
]
DIRECTIVES += [".explicitcluster", ".maxclusterrank 8", '.pragma "nounroll";', ".blocksareclusters"]
STATEMENTS = [
    "ret;",
    "exit;",
    "trap;",
    "brkpt;",
    ".loc 1 3 4",
    '.file 1 "a.cu"',
    '.pragma "nounroll";',
    "{",
    "}",
    "bar.sync 0;",
]
REGISTERS = (
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .f32 %f<9>; .reg .b64 %rd<19>; .reg .f64 %fd<9>; "
    ".reg .b128 %q<3>; .reg .b8 %b<3>;"
)
OPERANDS = ["%p1", "%h1", "%h2", "%r1", "%r2", "%r3", "%f1", "%f2", "%rd1", "%rd2", "%fd1", "%q1", "%b1", "%tid.x"]
OPERANDS += [
    "%ctaid.y",
    "%clock64",
    "%laneid",
    "[%rd1]",
    "[%rd1+8]",
    "[%r1]",
    "[sm]",
    "[sm+64]",
    "[gl]",
    "[k_param_0]",
    "[mb]",
]
OPERANDS += [
    "{%r1, %r2}",
    "{%r1, %r2, %r3, %r4}",
    "{%h1, %h2}",
    "{%f1, %f2}",
    "{%rd1, %rd2}",
    "_",
    "sm",
    "gl",
    "L1",
    "fn",
]
OPERANDS += [
    "!%p2",
    "%p1|%p2",
    "-%r1",
    "0",
    "1",
    "-1",
    "0x10",
    "0f3F800000",
    "[%rd1, {%r1, %r2}]",
    "(%r1)",
    "tab",
    "-16",
]


@cache
def patterns() -> tuple[str, ...]:
    """The patterns of the instruction table."""
    return tuple(pattern for _, pattern, _ in _core.instruction_forms())


@cache
def corpus() -> tuple[str, ...]:
    """Shipped and test PTX, small ones whole, of large ones the first 40,000 letters."""
    folders = (ROOT / "sglab" / "kernels" / "ptx", ROOT / "tests" / "support" / "corpus" / "ptx")
    texts = [lzma.decompress(path.read_bytes()).decode() for each in folders for path in sorted(each.glob("*.ptx.xz"))]
    return tuple(text[:40_000] for text in texts)


@cache
def corpus_statements() -> tuple[str, ...]:
    """Different lines of the corpus, without comments."""
    lines = {line.strip() for text in corpus() for line in text.splitlines()}
    return tuple(sorted(line for line in lines if line and not line.startswith("//") and len(line) < 2000))


@cache
def _some(pattern: str) -> tuple[str, ...]:
    return tuple(each for each, _ in zip(mnemonics(pattern), range(3000), strict=False))


def mnemonic(rng: random.Random) -> str:
    """A mnemonic of the table, sometimes with a modifier too many, too few or in another place."""
    chosen = rng.choice(_some(rng.choice(patterns())))
    if rng.random() < 0.1:
        tokens = chosen.split(".")
        at = rng.randrange(len(tokens))
        tokens = rng.choice([tokens[:at] + tokens[at + 1 :] or ["x"], [*tokens[:at], rng.choice(tokens), *tokens[at:]]])
        chosen = ".".join(tokens)
    return chosen


def instruction(rng: random.Random) -> str:
    guard = rng.choice(["", "", "", "@%p1 ", "@!%p2 "])
    operands = ", ".join(rng.choice(OPERANDS) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4, 5, 6])))
    return f"{guard}{mnemonic(rng)} {operands};"


def number(rng: random.Random) -> str:
    return rng.choice(EXTREMES) if rng.random() < 0.4 else str(rng.randrange(0, 300))


def variable(rng: random.Random, spaces: tuple[str, ...], name: str) -> str:
    align = (
        f".align {number(rng) if rng.random() < 0.2 else rng.choice([1, 2, 4, 8, 16, 128])} "
        if rng.random() < 0.6
        else ""
    )
    size = rng.choice(["", f"[{number(rng)}]", f"[{rng.randrange(1, 64)}]", "[]", f"[2][{rng.randrange(1, 9)}]"])
    start = ""
    if rng.random() < 0.4:
        values = [
            rng.choice([number(rng), "fn", "gl", "generic(gl)", "gl+4", "{1, 2}"]) for _ in range(rng.randrange(0, 6))
        ]
        start = " = {" + ", ".join(values) + "}"
    extern = rng.choice(["", "", "", ".extern ", ".visible ", ".weak "])
    return f"{extern}{rng.choice(spaces)} {align}.{rng.choice(SCALARS)} {name}{size}{start};"


def parameters(rng: random.Random) -> str:
    entries = []
    for k in range(rng.choice([0, 1, 1, 2, 4])):
        array = f"[{number(rng)}]" if rng.random() < 0.2 else ""
        align = f".align {rng.choice(['1', '8', '16', '128', number(rng)])} " if rng.random() < 0.3 else ""
        entries.append(f".param {align}.{rng.choice(SCALARS)} k_param_{k}{array}")
    return ", ".join(entries)


def module(rng: random.Random) -> str:
    """A module after the grammar, most of whose statements are right."""
    lines = [HEADER if rng.random() < 0.9 else HEADER.replace("sm_100a", rng.choice(["sm_80", "sm_90a", "sm_1", "x"]))]
    lines.append(".global .align 64 .b8 gl[256];\n.visible .func fn(){ret;}\n")
    for k in range(rng.randrange(0, 3)):
        lines.append(variable(rng, (".global", ".const", ".shared"), f"v{k}") + "\n")
    if rng.random() < 0.3:
        lines.append(
            f".func (.reg .b32 %out) g(.param .{rng.choice(SCALARS)} a)\n{{ {REGISTERS}\n{_body(rng, 4)}ret;\n}}\n"
        )
    lines.append(f".visible .entry k({parameters(rng)}) {rng.choice(['', '', *DIRECTIVES])}\n{{\n{REGISTERS}\n")
    lines.append(".shared .align 128 .b8 sm[2048];\n.shared .align 8 .b64 mb;\n")
    lines.append(_body(rng, rng.choice([1, 3, 8, 20])))
    lines.append("ret;\n}\n")
    return "".join(lines)


def _body(rng: random.Random, count: int) -> str:
    lines = []
    for k in range(count):
        kind = rng.random()
        if kind < 0.55:
            lines.append(instruction(rng))
        elif kind < 0.75:
            lines.append(rng.choice(corpus_statements()))
        elif kind < 0.8:
            lines.append(f"L{rng.randrange(3)}:")
        elif kind < 0.85:
            lines.append(f"@%p1 bra L{rng.randrange(3)};")
        elif kind < 0.9:
            lines.append(variable(rng, (".shared", ".local", ".param", ".reg"), f"x{k}"))
        elif kind < 0.94:
            lines.append(
                "{ .param .b64 p; .param .b32 r; st.param.b64 [p], %rd1; call (r), "
                + rng.choice(["fn", "g", "%rd1"])
                + ", (p); }"
            )
        else:
            lines.append(rng.choice(STATEMENTS))
    return "\n".join(lines) + "\n"


def mutated(rng: random.Random, text: str) -> str:
    """A text with some tokens or lines removed, repeated, exchanged, or made extreme."""
    if rng.random() < 0.5:
        text = _mutated_lines(rng, text)
    tokens = TOKEN.findall(text)
    if not tokens:
        return text
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at, what = rng.randrange(len(tokens)), rng.randrange(8)
        if what == 0:
            del tokens[at : at + rng.choice([1, 1, 3, 40])]
        elif what == 1:
            tokens.insert(at, rng.choice(tokens))
        elif what == 2:
            tokens[at] = rng.choice(tokens)
        elif what == 3:
            numbers = [k for k in range(max(at - 200, 0), min(at + 200, len(tokens))) if tokens[k][:1].isdigit()]
            tokens[rng.choice(numbers) if numbers else at] = rng.choice(EXTREMES)
        elif what == 4:
            tokens[at] = rng.choice([*EXTREMES, *OPERANDS, *STATEMENTS, *".,;:{}[]()@!|<>=-+/*\"\\'"])
        elif what == 5:
            tokens[at] = tokens[at][: rng.randrange(len(tokens[at]) + 1)] + rng.choice(
                ["", "\x00", "\xff", "é", "\ud800", "/*", "//"]
            )
        elif what == 6:
            times = rng.choice([2, 10, 1000])
            tokens[at] = tokens[at] * min(times, max(LONGEST_TOKEN // max(len(tokens[at]), 1), 1))
        else:
            del tokens[at + 1 :]
        if not tokens:
            return ""
    return "".join(tokens)


def _mutated_lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(rng.choice([1, 2, 8])):
        if not lines:
            return ""
        at = rng.randrange(len(lines))
        lines[at : at + rng.choice([0, 1, 5])] = rng.choice(
            [[], [rng.choice(lines)], [rng.choice(corpus_statements()) + "\n"], [instruction(rng) + "\n"]]
        )
    return "".join(lines)
