"""Different widgets, each with its own bundle, in one page: one selection, no clashes."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

pytest.importorskip("triton")

import sglab
from sglab.widgets import PageTable, SplitKV, html_page


def test_selecting_a_request_in_one_widget_selects_it_in_the_other(page: Page, tmp_path: Path) -> None:
    batch = sglab.decode_batch([300, 1000, 77], page_size=64, kv_lora_rank=16, qk_rope_head_dim=16)
    path = tmp_path / "report.html"
    path.write_text(html_page([PageTable(batch), SplitKV(batch)], "One batch"), encoding="utf-8")
    page.goto(path.as_uri())
    table, split = page.locator(".sg-widget").nth(0), page.locator(".sg-widget").nth(1)
    expect(table.locator(".sg-counter")).to_have_text("step 0 of 29")
    table.press("ArrowDown")
    table.press("ArrowDown")
    expect(split.locator(".sg-details")).to_contain_text("1,000")
    split.press("ArrowDown")
    expect(table.locator(".sg-details")).to_contain_text("Request r2")


def test_a_widget_looks_the_same_beside_others(page: Page, tmp_path: Path) -> None:
    """Each brings its style sheet; none may reach into another's frame."""
    page.set_viewport_size({"width": 1800, "height": 1000})
    batch = sglab.decode_batch([300, 1000, 77], page_size=64, kv_lora_rank=16, qk_rope_head_dim=16)
    sizes = []
    for name, widgets in (("alone", [SplitKV(batch)]), ("together", [SplitKV(batch), PageTable(batch)])):
        path = tmp_path / f"{name}.html"
        path.write_text(html_page(widgets, name), encoding="utf-8")
        page.goto(path.as_uri())
        expect(page.locator(".skv-gantt").first).to_be_visible()
        sizes.append([each.bounding_box() for each in page.locator(".skv-bars, .skv-gantt, .skv-totals").all()])
    assert sizes[0] == sizes[1]
