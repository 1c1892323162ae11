"""Draws the course's figures and attaches them to the notebooks that show them: python -m tools.figures [NAME ...]

A figure is a function without arguments in a module of this folder, named as the attachment is: `primer_sm` for
`attachment:primer_sm.png`. It is drawn as SVG, and Chromium makes a PNG of it, at twice the resolution, because a
notebook's SVG is not shown everywhere: JupyterLab refuses it as an attachment ("Cannot render unknown image mime
type"); as a data URI it shows there and in slides, but not in Colab (googlecolab/colabtools#2092), and whoever opens
the cell sees nothing else; a file beside the notebook is lost in a copy of the notebook and in Colab; of a <picture>
with both JupyterLab keeps only the <img>, for its sanitiser drops srcset. A PNG that is attached shows in all of them.
With --show FOLDER the PNGs are written there, too, and the SVGs they were made of.
"""

from __future__ import annotations

import argparse
import base64
import importlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

from .canvas import Canvas

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE.parents[1] / "notebooks"

SHOWN = re.compile(r"attachment:(\w+)\.png")
SCALE = 2
CHROMIUM = Path("/usr/bin/chromium")


def figures() -> dict[str, Callable[[], Canvas]]:
    """All figures, by name."""
    found = {}
    for path in sorted(HERE.glob("*.py")):
        if path.stem.startswith("_") or path.stem in ("canvas", "attach"):
            continue
        module = importlib.import_module(f".{path.stem}", __package__)
        for name, thing in vars(module).items():
            if getattr(thing, "__module__", "") == module.__name__ and not name.startswith("_"):
                found[name] = thing
    return found


@contextmanager
def browser_page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        path = str(CHROMIUM) if CHROMIUM.exists() else None
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser.new_page(device_scale_factor=SCALE)
        browser.close()


def png(page: Page, figure: Canvas) -> bytes:
    """The figure, with transparent corners."""
    page.set_viewport_size({"width": figure.width, "height": figure.height})
    page.set_content(f'<body style="margin:0;background:transparent">{figure.svg()}</body>')
    return page.screenshot(omit_background=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="notebooks, by how their names begin; all without one")
    parser.add_argument("--show", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    drawn = figures()
    with browser_page() as page:
        for path in sorted(NOTEBOOKS.glob("*.ipynb")):
            if options.names and not path.name.startswith(tuple(options.names)):
                continue
            notebook = nbformat.read(path, as_version=4)
            count = 0
            for cell in notebook.cells:
                mine = [name for name in SHOWN.findall(cell.source) if name in drawn]
                if not mine:
                    continue
                made = {name: png(page, drawn[name]()) for name in mine}
                cell["attachments"] = {
                    f"{name}.png": {"image/png": base64.b64encode(data).decode()} for name, data in made.items()
                }
                for name, data in made.items():
                    if options.show:
                        (options.show / f"{name}.png").write_bytes(data)
                        (options.show / f"{name}.svg").write_text(drawn[name]().svg(), "utf-8")
                    count += 1
            if count:
                nbformat.write(notebook, path)
                print(f"{path.name}: {count} figures")
