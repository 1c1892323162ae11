"""The timeline's parts in a real browser: coverage at every zoom, lanes, hits, and the pixels of bars and steps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.support.browser.probe_widget import Probe
from tests.support.browser.widget_host import Host

SPANS = """(rows) => ({
  size: rows.length,
  start: Float64Array.from(rows, (row) => row[0]),
  end: Float64Array.from(rows, (row) => row[1]),
  look: Uint8Array.from(rows, (row) => row[2] ?? 0),
  id: Uint32Array.from(rows, (_, i) => i),
})"""
ONE_ROW = """async ([rows, profile, range]) => {
  const core = sglabHost.modules.get("probe").core;
  const look = { fill: "#0072b2", hatch: "none", ink: "#ffffff" };
  const colours = ["text", "muted", "background", "surface", "border", "focus", "error", "warning"];
  const theme = { dark: false, uiFont: "sans-serif", codeFont: "monospace" };
  for (const name of colours) theme[name] = "#ffffff";
  const disposer = new core.Disposer();
  const host = document.createElement("div");
  host.style.width = "700px";
  document.body.append(host);
  const timeline = new core.Timeline({
    label: "test",
    theme: () => theme,
    tooltip: { show() {}, hide() {} },
    describe: () => undefined,
    select: () => {},
    selectRow: () => {},
  }, disposer);
  host.append(timeline.element);
  const none = { size: 0, fromRow: new Int32Array(0), fromX: new Float64Array(0), toRow: new Int32Array(0) };
  const row = { label: "row", title: "row", group: "group", look: 0, height: 20, lanes: [(SPANS)(rows)] };
  if (profile)
    Object.assign(row, {
      lanes: [],
      profiles: [{ x: Float64Array.from(profile[0]), y: Float32Array.from(profile[1]), look: 0 }],
    });
  timeline.load({
    length: 1000,
    rows: [row],
    looks: [look],
    links: { ...none, toX: new Float64Array(0) },
    least: 1,
    format: String,
    axis: "",
    barLabel: () => "",
  });
  timeline.setCursor(1e9, false);
  timeline.setRange({ start: range[0], end: range[1] });
  timeline.draw();
  const canvas = host.querySelector(".sg-timeline-canvas");
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const columns = [];
  for (let x = 0; x < width; x++) {
    let filled = 0;
    for (let y = 0; y < height; y++) {
      const at = 4 * (y * width + x);
      if (data[at + 2] > data[at] + 40) filled += 1; // blue, however faint
    }
    columns.push(filled);
  }
  disposer.dispose();
  host.remove();
  return columns;
}""".replace("SPANS", SPANS)


@pytest.fixture
def page(host: Host) -> Page:
    host.show(Probe())
    return host.page


def random_spans(count: int, length: float) -> list[list[float]]:
    """Disjoint, ascending, of all sizes."""
    edges = np.sort(np.random.default_rng().uniform(0, length, 2 * count))
    return edges.reshape(count, 2).tolist()


def levels(page: Page, spans: list[list[float]], length: float) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = page.evaluate(
        f"""([rows, length]) => {{
          const {{ Pyramid }} = sglabHost.modules.get("probe").core;
          const {{ levels }} = new Pyramid(({SPANS})(rows), length);
          return levels.map(({{ width, cover }}) => ({{ width, cover: [...cover] }}));
        }}""",
        [spans, length],
    )
    return made


def test_every_level_covers_what_the_spans_do(page: Page) -> None:
    spans = random_spans(3000, 50_000)
    edges = np.array(spans)
    for level in levels(page, spans, 50_000):
        bins = np.arange(len(level["cover"]) + 1) * level["width"]
        covered = [
            np.clip(np.minimum(edges[:, 1], high) - np.maximum(edges[:, 0], low), 0, None).sum()
            for low, high in pairwise(bins)
        ]
        np.testing.assert_allclose(level["cover"], covered, atol=0.05)


def test_overlapping_spans_get_as_many_lanes_as_overlap(page: Page) -> None:
    generator = np.random.default_rng()
    start = np.sort(generator.uniform(0, 1000, 200))
    end = start + generator.exponential(20, 200)
    lanes = page.evaluate(
        f"""(rows) => sglabHost.modules.get("probe").core.packLanes(({SPANS})(rows), 64)
          .map(({{ id, start, end }}) => [[...id], [...start], [...end]])""",
        np.stack([start, end], axis=1).tolist(),
    )
    depth = max(int(((start <= at) & (end > at)).sum()) for at in start)
    assert len(lanes) == depth
    assert sorted(each for ids, _, _ in lanes for each in ids) == list(range(200))
    for ids, begins, ends in lanes:
        assert begins == [start[each] for each in ids]
        assert all(before <= after for before, after in zip(ends, begins[1:], strict=False))


def test_the_span_at_a_place_or_the_nearest_within_reach(page: Page) -> None:
    found = page.evaluate(
        f"""(rows) => [5, 15, 19, 21, 35, 60].map((x) =>
          sglabHost.modules.get("probe").core.spanAt(({SPANS})(rows), x, 4))""",
        [[0, 10], [20, 30], [31, 40]],
    )
    assert found == [0, -1, 1, 1, 2, -1]


def test_bars_lie_where_their_spans_do(page: Page) -> None:
    columns = page.evaluate(ONE_ROW, [[[250, 500], [600, 601]], None, [0, 1000]])
    width = len(columns)
    assert all(columns[round(at * width)] == 20 for at in (0.26, 0.4, 0.49))
    assert all(columns[round(at * width)] == 0 for at in (0.1, 0.24, 0.51, 0.58, 0.7))
    assert max(columns[round(0.598 * width) : round(0.603 * width)]) == 20  # a hair, but there


def test_zoomed_out_a_bar_is_as_high_as_its_share(page: Page) -> None:
    """100,000 spans: the first half of the axis is covered to a quarter, the second to three quarters."""
    step = 1000 / 100_000
    spans = [[i * step, i * step + step * (0.25 if i < 50_000 else 0.75)] for i in range(100_000)]
    columns = page.evaluate(ONE_ROW, [spans, None, [0, 1000]])
    width = len(columns)
    first, second = columns[width // 10 : width // 2 - 10], columns[width // 2 + 10 : -10]
    assert abs(np.mean(first) - 5) <= 1.1
    assert abs(np.mean(second) - 15) <= 1.1


def test_steps_last_until_the_next_and_short_ones_do_not_hide_long_ones(page: Page) -> None:
    """Twenty changes within a pixel, the last of which is 0 and lasts."""
    x = [0, *(500 + i / 100 for i in range(20)), 800]
    y = [0.5, *([1.0, 0.2] * 9 + [1.0, 0.0]), 1.0]
    columns = page.evaluate(ONE_ROW, [[], [x, y], [0, 1000]])
    width = len(columns)
    assert abs(columns[round(0.25 * width)] - 10) <= 1
    assert columns[round(0.65 * width)] == 0
    assert columns[round(0.9 * width)] >= 18
