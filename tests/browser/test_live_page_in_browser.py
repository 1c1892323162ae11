"""A live page: widgets in a browser, with Python but without Jupyter."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from playwright.sync_api import Browser, expect

from sglab import gpu
from sglab.widgets import KernelDebugger, WarpRoles
from sglab.widgets.live import LivePage
from tests.support.browser.patience import QUIET, be_patient, settled

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry count()
{
.reg .b32 %r<9>;
mov.u32 %r0, 0;
mov.u32 %r1, 1;
mov.u32 %r2, 2;
mov.u32 %r3, 3;
mov.u32 %r4, 4;
mov.u32 %r5, 5;
mov.u32 %r6, 6;
mov.u32 %r7, 7;
ret;
}
"""


@pytest.fixture
def session():
    module = gpu.Module(PTX, "count.ptx")
    return module["count"].session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_debugger_steps_and_the_timeline_follows(browser: Browser, session, theme: str) -> None:
    with LivePage([KernelDebugger(session), WarpRoles(session)], "my kernel") as live:
        context = browser.new_context(color_scheme=theme, viewport={"width": 1200, "height": 900})
        be_patient(context)
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(live.address)
        expect(page.get_by_role("heading", name="my kernel")).to_be_visible()
        debugger = page.locator("[data-widget='0']")
        expect(debugger.get_by_text("step 0 of")).to_be_visible()
        debugger.get_by_label("Step size").select_option("instruction")
        debugger.get_by_role("button", name="Step forward").click()
        expect(debugger.get_by_text("step 1 of")).to_be_visible()
        assert session.now == 1
        session.step(count=2)
        expect(debugger.get_by_text("step 3 of")).to_be_visible()
        live.close()
        expect(debugger.get_by_role("alert").first).to_contain_text("or the command that opened this page")
        context.close()
        assert not errors


def test_two_pages_show_the_same(browser: Browser, session) -> None:
    with LivePage([KernelDebugger(session)], "my kernel") as live:
        pages = [browser.new_page() for _ in range(2)]
        for page in pages:
            be_patient(page.context)
            page.goto(live.address)
            expect(page.get_by_text("step 0 of")).to_be_visible()
        pages[0].get_by_label("Step size").select_option("instruction")
        pages[0].get_by_role("button", name="Step forward").click()
        for page in pages:
            expect(page.get_by_text("step 1 of")).to_be_visible()
            page.context.close()


def test_a_move_while_the_page_looks_is_not_missed(browser: Browser, session) -> None:
    class Moved(LivePage):
        """The session moves as soon as a page has looked at it: the answer and the news come in one piece."""

        def tell(self, page: str, number: int, data: dict[str, Any]) -> None:
            with self._lock:
                super().tell(page, number, data)
                if data.get("content", {}).get("command") == "look" and session.now == 0:
                    session.step()

    with Moved([KernelDebugger(session)], "my kernel") as live:
        page = browser.new_page()
        be_patient(page.context)
        page.goto(live.address)
        expect(page.get_by_text("step 1 of 9")).to_be_visible()
        page.context.close()


def test_a_widget_out_of_sight_follows_once_it_is_seen(browser: Browser, session) -> None:
    with LivePage([KernelDebugger(session), KernelDebugger(session)], "my kernel") as live:
        context = browser.new_context(viewport={"width": 1000, "height": 400})
        be_patient(context)
        page = context.new_page()
        page.add_init_script(path=QUIET)
        page.goto(live.address)
        first, second = (page.locator(f"[data-widget='{number}']") for number in range(2))
        expect(second.get_by_text("step 0 of 9")).to_be_attached()
        page.evaluate("scrollTo(0, 0)")
        expect(second.locator(".sg-title")).not_to_be_in_viewport()
        settled(page)
        for _ in range(3):
            session.step()
        expect(first.get_by_text("step 3 of 9")).to_be_attached()
        settled(page)
        expect(second.get_by_text("step 0 of 9")).to_be_attached()
        second.locator(".sg-title").scroll_into_view_if_needed()
        expect(second.get_by_text("step 3 of 9")).to_be_attached()
        context.close()


def test_strangers_are_refused(session) -> None:
    with LivePage([KernelDebugger(session)], "my kernel") as live:
        root = live.address.rsplit("/", 2)[0]
        data = json.dumps({"page": "x", "widget": 0, "data": {"method": "custom", "content": {}}}).encode()
        for path, headers in [
            ("/", {}),
            ("/wrong/0.state", {}),
            (live.address.removeprefix(root), {"Host": "evil.example"}),
            (live.address.removeprefix(root) + "tell", {"Origin": "http://evil.example"}),
        ]:
            request = urllib.request.Request(root + path, data if path.endswith("tell") else None, headers)
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(request)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(live.address + "../../etc/passwd")
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urllib.request.urlopen(urllib.request.Request(live.address + "tell", b"{}"))
