"""The slides of each notebook in Chromium: they need no network, everything fits, keys turn them."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.browser.patience import PATIENCE_MS

pytest.importorskip("nbconvert")

from tools.notebooks.slides import deck

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
LEAST = 0.75
"""Of the size of its text, below which a slide has too much on it."""

SIZES = """slides.map((slide) => {
  const body = slide.querySelector('.body');
  const broken = [...slide.querySelectorAll('img')].filter((image) => !image.naturalWidth).length;
  return { shrink: Number(slide.dataset.shrink), down: body.scrollHeight - body.clientHeight,
           across: body.scrollWidth - body.clientWidth, broken, text: body.textContent.trim().length };
})"""


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_slide_fits_and_needs_no_network(page: Page, tmp_path: Path, path: Path) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_viewport_size({"width": 1280, "height": 720})
    file = tmp_path / f"{path.stem}.html"
    file.write_text(deck(path), "utf-8")
    page.goto(file.as_uri())
    expect(page.locator("body[data-ready]")).to_have_count(1, timeout=PATIENCE_MS)
    for number, size in enumerate(page.evaluate(SIZES), start=1):
        where = f"{path.stem}, slide {number}: {size}"
        assert size["down"] <= 1 and size["across"] <= 1 and size["shrink"] >= LEAST, where
        assert not size["broken"], where
    assert all(url.startswith(("file:", "data:")) for url in asked), asked


def test_keys_turn_slides_and_the_address_keeps_the_number(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "slides.html"
    file.write_text(deck(next(path for path in NOTEBOOKS if path.stem == "05_mla")), "utf-8")
    page.goto(file.as_uri())
    shown = page.locator(".slide.shown footer")
    count = page.locator(".slide").count()
    expect(shown).to_have_text(f"1 / {count}")
    for key, number in (
        ("ArrowRight", 2),
        (" ", 3),
        ("ArrowLeft", 2),
        ("End", count),
        ("ArrowRight", count),
        ("Home", 1),
    ):
        page.keyboard.press(key)
        expect(shown).to_have_text(f"{number} / {count}")
    page.keyboard.press("PageDown")
    page.reload()
    expect(shown).to_have_text(f"2 / {count}")


def test_a_large_screen_shows_the_same_slide_larger_and_dark_is_dark(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "slides.html"
    file.write_text(deck(next(path for path in NOTEBOOKS if path.stem == "03_online_softmax")), "utf-8")
    context = browser.new_context(viewport={"width": 1920, "height": 1080}, color_scheme="dark")
    page = context.new_page()
    page.goto(file.as_uri())
    box = page.locator(".slide.shown").bounding_box()
    assert box is not None and box["width"] == pytest.approx(1920, abs=2)
    colours = page.evaluate("['backgroundColor', 'color'].map((name) => getComputedStyle(slides[0])[name])")
    light = [sum(map(int, colour[4:-1].split(","))) for colour in colours]
    assert light[0] < 150 < light[1]
    context.close()
