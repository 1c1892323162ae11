"""Formulas of the notebooks (a little TeX) as MathML, which browsers show without a network."""

from __future__ import annotations

import re
from html import escape

TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:[.,][0-9]+)*|[^\s]")
SYMBOLS = {
    "cdot": "·",
    "times": "×",
    "sum": "∑",
    "prod": "∏",
    "leftarrow": "←",
    "rightarrow": "→",
    "to": "→",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "neq": "≠",
    "approx": "≈",
    "infty": "∞",
    "in": "∈",
    "pm": "±",
    "ldots": "…",
    "dots": "…",
    "cdots": "⋯",
    "oplus": "⊕",
    "mid": "|",
    "lfloor": "⌊",
    "rfloor": "⌋",
    "lceil": "⌈",
    "rceil": "⌉",
    "top": "⊤",
    "quad": "\u2003",
    "qquad": "\u2003\u2003",
    ",": "\u2009",
    " ": "\u2009",
    "{": "{",
    "}": "}",
    "%": "%",
    "_": "_",
    ";": "\u2005",
    "!": "",
    "left": "",
    "right": "",
}
_NAMES = "alpha beta gamma delta epsilon lambda mu sigma tau theta phi rho pi"
GREEK = dict(zip(_NAMES.split(), "αβγδελμστθφρπ", strict=True))
UPRIGHT = {"mathrm", "text", "operatorname", "textrm", "mathbf", "mathsf"}
_CODE, _BLOCK, _SPAN = r"(```.*?```|`[^`\n]+`)", r"\$\$(.+?)\$\$", r"(?<![\\$])\$(?=\S)([^$\n]+?)(?<=\S)\$(?!\d)"
INLINE = re.compile(f"{_CODE}|{_BLOCK}|{_SPAN}", re.DOTALL)


def with_math(source: str) -> str:
    """Markdown whose $…$ and $$…$$ have become MathML; code stays as it is."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        return mathml(match[2], True) if match[2] is not None else mathml(match[3])

    return INLINE.sub(replaced, source)


def mathml(formula: str, display: bool = False) -> str:
    """One formula. A macro that is not known here is shown by its name."""
    tokens = _tokens(formula)
    parts, rest = _row(tokens, 0)
    while rest < len(tokens):  # a closing brace too many is shown
        more, rest = _row(tokens, rest + 1)
        parts += more
    block = ' display="block"' if display else ""
    return f"<math{block}>{''.join(parts)}</math>"


def _tokens(formula: str) -> list[str]:
    """Texts of \\text{…} are one token, with their spaces."""
    found: list[str] = []
    pattern = re.compile(rf"\\({'|'.join(UPRIGHT)})\{{([^{{}}]*)\}}")
    last = 0
    for match in pattern.finditer(formula):
        found += [*TOKEN.findall(formula[last : match.start()]), f"\\text{match[2]}\0"]
        last = match.end()
    return found + TOKEN.findall(formula[last:])


def _row(tokens: list[str], at: int) -> tuple[list[str], int]:
    parts: list[str] = []
    while at < len(tokens) and tokens[at] != "}":
        atom, at = _atom(tokens, at)
        scripts: dict[str, str] = {}
        while at < len(tokens) and tokens[at] in "_^'":
            if tokens[at] == "'":
                scripts["^"], at = scripts.get("^", "") + "<mo>′</mo>", at + 1
            else:
                sign = tokens[at]
                scripts[sign], at = _atom(tokens, at + 1)
        name = {"_": "msub", "^": "msup"}.get("".join(scripts), "msubsup") if scripts else ""
        inside = "".join(f"<mrow>{scripts[sign]}</mrow>" for sign in "_^" if sign in scripts)
        parts.append(f"<{name}>{atom}{inside}</{name}>" if name else atom)
    return parts, at


def _atom(tokens: list[str], at: int) -> tuple[str, int]:
    if at >= len(tokens):
        return "<mrow></mrow>", at
    token, at = tokens[at], at + 1
    if token == "{":
        parts, at = _row(tokens, at)
        return f"<mrow>{''.join(parts)}</mrow>", at + 1
    if token.endswith("\0"):
        return f"<mtext>{escape(token[5:-1])}</mtext>", at
    if not token.startswith("\\"):
        kind = "mn" if token[0].isdigit() else "mi" if token.isalpha() else "mo"
        return f"<{kind}>{escape('−' if token == '-' else token)}</{kind}>", at
    name = token[1:]
    if name == "frac":
        above, at = _atom(tokens, at)
        below, at = _atom(tokens, at)
        return f"<mfrac>{above}{below}</mfrac>", at
    if name == "sqrt":
        inside, at = _atom(tokens, at)
        return f"<msqrt>{inside}</msqrt>", at
    if name in SYMBOLS:
        return (f"<mo>{SYMBOLS[name]}</mo>" if SYMBOLS[name].strip() else f"<mtext>{SYMBOLS[name]}</mtext>"), at
    if name in GREEK:
        return f"<mi>{GREEK[name]}</mi>", at
    return f'<mi mathvariant="normal">{escape(name)}</mi>', at  # log, max and other functions
