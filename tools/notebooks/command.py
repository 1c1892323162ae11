"""The commands: sync, check, take, slides, minutes."""

from __future__ import annotations

import argparse
from pathlib import Path

import nbformat

from . import pairs, slides
from .minutes import parts

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def chosen(names: list[str], folder: Path = NOTEBOOKS) -> list[Path]:
    """Notebooks whose names begin so; all without names.

    Raises:
        SystemExit: there is none of that name.
    """
    paths = sorted(folder.glob("*.ipynb"))
    for name in names:
        if not any(path.name.startswith(name) for path in paths):
            raise SystemExit(f"no notebook's name begins with {name!r}; there are {', '.join(p.stem for p in paths)}")
    return [path for path in paths if not names or path.name.startswith(tuple(names))]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in (
        ("sync", "write each notebook's text into notebooks/text"),
        ("check", "say which texts are not those of their notebooks"),
        ("take", "take edited texts into their notebooks"),
        ("slides", "write slides, one HTML page each"),
        ("minutes", "count how long each notebook takes, part by part, beside what it says"),
    ):
        command = commands.add_parser(name, help=what)
        command.add_argument("names", nargs="*", help="notebooks, by how their names begin; all without one")
        if name == "slides":
            command.add_argument("--out", type=Path, default=Path("slides"), metavar="FOLDER")
            command.add_argument("--run", action="store_true", help="run the notebooks first, and show what comes out")
    options = parser.parse_args(arguments)
    paths = chosen(options.names)
    if options.command == "slides":
        options.out.mkdir(parents=True, exist_ok=True)
        for path in paths:
            page = options.out / f"{path.stem}.html"
            page.write_text(slides.deck(path, options.run), "utf-8")
            print(page)
        return 0
    if options.command == "minutes":
        for path in paths:
            for part in parts(nbformat.read(path, as_version=4)):
                print(f"{path.stem:28} {part.minutes:5.1f} counted, {part.stated} said  {part.title}".rstrip())
        return 0
    if options.command == "take":
        changed = [path for path in paths if pairs.take(path)]
        print(*(f"changed: {path.name}" for path in changed), sep="\n")
        return 0
    stale = [path for path in paths if not pairs.agree(path)]
    if options.command == "sync":
        for path in stale:
            pairs.write(path)
        for text in pairs.without_notebook(NOTEBOOKS) if not options.names else []:
            text.unlink()
    word = {"sync": "written", "check": "differs from its notebook"}[options.command]
    for path in stale:
        print(f"{pairs.text_path(path).name}: {word}")
    return int(options.command == "check" and bool(stale))
