"""The tiny model's text: generated stories, arithmetic and recall, and this repository's own documents."""

from __future__ import annotations

import ast
import json
import string
from collections.abc import Iterator
from pathlib import Path
from random import Random

from stories import NAMES, story

ROOT = Path(__file__).resolve().parents[2]
BOS, EOS = 256, 257
"""Token ids beside the 256 bytes: where a document begins and ends."""
PASSAGE = 1200
"""Characters of a document that are one text of the corpus, at most."""


def arithmetic(random: Random) -> str:
    """A few sums, differences, products and rows of numbers."""
    lines = []
    for _ in range(random.randint(3, 8)):
        x, y = (random.randint(0, random.choice((9, 20, 99))) for _ in range(2))
        kind = random.random()
        if kind < 0.4:
            lines.append(f"{x} + {y} = {x + y}")
        elif kind < 0.65:
            lines.append(f"{max(x, y)} - {min(x, y)} = {max(x, y) - min(x, y)}")
        elif kind < 0.85:
            lines.append(f"{x % 13} * {y % 13} = {x % 13 * (y % 13)}")
        else:
            step = random.randint(1, 5)
            lines.append(", ".join(str(x + i * step) for i in range(7)))
    return "\n".join(lines) + "\n"


def recall(random: Random) -> str:
    """Things to look up in what was just said: repeated words, and keys with their values."""
    if random.random() < 0.5:
        words = ["".join(random.choices(string.ascii_lowercase, k=random.randint(2, 6))) for _ in range(8)]
        line = " ".join(words[: random.randint(3, 8)])
        return f"Repeat: {line}\n" + f"{line}\n" * random.randint(1, 2)
    keys = random.sample(NAMES, random.randint(3, 7))
    values = {key: str(random.randint(10, 999)) for key in keys}
    told = "".join(f"{key}: {value}\n" for key, value in values.items())
    return told + "".join(f"{key}? {values[key]}\n" for key in random.sample(keys, min(4, len(keys))))


def documents() -> list[str]:
    """Passages of the repository's own pages, notebooks and docstrings, in a fixed order."""
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", ROOT / "GLOSSARY.md", ROOT / "CONTRIBUTING.md")]
    texts += [path.read_text("utf-8") for path in sorted((ROOT / "docs").glob("*.md")) if path.name != "api.md"]
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        texts.append("\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"))
    for path in sorted((ROOT / "sglab").rglob("*.py")):
        texts += _docstrings(path)
    return [passage for text in texts for passage in _passages(text)]


def shard(seed: int, size: int) -> list[bytes]:
    """Texts of about `size` bytes in all; equal seeds give equal texts."""
    random, own, texts, total = Random(seed), documents(), [], 0
    while total < size:
        kind = random.random()
        made = (
            story(random)
            if kind < 0.62
            else arithmetic(random)
            if kind < 0.76
            else recall(random)
            if kind < 0.84
            else random.choice(own)
        )
        texts.append(made.encode("utf-8"))
        total += len(texts[-1])
    return texts


def tokens(texts: list[bytes]) -> tuple[list[int], list[int]]:
    """All texts as token ids, each between BOS and EOS, and where each begins."""
    ids: list[int] = []
    starts = []
    for text in texts:
        starts.append(len(ids))
        ids += [BOS, *text, EOS]
    return ids, starts


def _docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node)
            if text and len(text) > 80:
                yield text + "\n"


def _passages(text: str) -> Iterator[str]:
    """Whole paragraphs, joined up to a passage's length."""
    passage = ""
    for paragraph in text.split("\n\n"):
        if passage and len(passage) + len(paragraph) > PASSAGE:
            yield passage
            passage = ""
        passage += paragraph.rstrip() + "\n\n"
    if passage.strip():
        yield passage
