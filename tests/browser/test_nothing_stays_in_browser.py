"""A view that goes takes its elements with it: what a module keeps for the next view holds no canvas of the last."""

import pytest

pytest.importorskip("triton")

from playwright.sync_api import CDPSession

from tests.support.browser.every_widget import MAKERS
from tests.support.browser.patience import settled
from tests.support.browser.widget_host import Host

KEPT = """function () {
  return [...this].filter((each) => {
    try { return !each.isConnected && each.classList.contains("sg-widget"); } catch { return false; }
  }).length;
}"""


@pytest.mark.parametrize("name", ["PageTable", "SplitKV", "SharedMemory", "TensorMemory", "KernelDebugger"])
def test_a_widget_that_is_gone(name: str, host: Host) -> None:
    page = host.page
    host.show(MAKERS[name]())
    settled(page)
    page.evaluate("document.getElementById('widget').sglabDispose()")
    session = page.context.new_cdp_session(page)
    for _ in range(50):  # what a frame or a timer still holds goes in a moment on a busy machine; a leak never does
        if kept(session) == 0:
            return
        page.wait_for_timeout(200)
    assert kept(session) == 0


def kept(session: CDPSession) -> int:
    """Widgets that are in the heap and not on the page."""
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    prototype = session.send("Runtime.evaluate", {"expression": "HTMLElement.prototype"})["result"]["objectId"]
    objects = session.send("Runtime.queryObjects", {"prototypeObjectId": prototype})["objects"]["objectId"]
    asked = {"objectId": objects, "functionDeclaration": KEPT, "returnByValue": True}
    found = int(session.send("Runtime.callFunctionOn", asked)["result"]["value"])
    session.send("Runtime.releaseObject", {"objectId": objects})
    return found
