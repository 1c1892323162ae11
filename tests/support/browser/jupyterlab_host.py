"""JupyterLab for end-to-end tests: a server of its own, notebooks made of given cells, commands through the app."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.support.browser.patience import PATIENCE_S, be_patient

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "sglab-tests"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(address: str, server: subprocess.Popen[bytes]) -> bool:
    """Waits until the server that was just started answers at `address`; False if it has ended or never does."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=PATIENCE_S).close()
            return True
        except (OSError, urllib.error.URLError):
            time.sleep(0.2)
    return False


def stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    try:
        server.wait(timeout=10)
    except subprocess.TimeoutExpired:  # one that was restarting a kernel misses its signal
        server.kill()
        server.wait()


def extension_in(folder: Path) -> Path:
    """The extension as a wheel installs it; returns `folder`, where JupyterLab then finds it."""
    shutil.copytree(ROOT / "widgets" / "labextension", folder / "sglab")
    shutil.copytree(ROOT / "sglab" / "widgets" / "static", folder / "sglab" / "static" / "widgets")
    return folder


class LabServer:
    """`jupyter lab` in `folder`, with no settings of the user; sglab and its extension are this checkout's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        settings = folder / ".jupyter"
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "JUPYTER_CONFIG_DIR": str(settings),
            "JUPYTER_RUNTIME_DIR": str(settings / "runtime"),
            "JUPYTERLAB_SETTINGS_DIR": str(settings / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(settings / "workspaces"),
        }
        options = {
            "ServerApp.ip": "127.0.0.1",
            "ServerApp.port": self.url.rsplit(":", 1)[1],
            "ServerApp.root_dir": str(folder),
            "IdentityProvider.token": TOKEN,
            "ServerApp.kernel_websocket_connection_class": "sglab.widgets.jupyter_connection.PromptConnection",
            "LabApp.extra_labextensions_path": str(extension_in(settings / "labextensions")),
        }
        quiet = settings / "settings" / "@jupyterlab" / "apputils-extension"
        quiet.mkdir(parents=True)
        (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser"]
        self.log = (folder / "server.log").open("wb")
        self._process = subprocess.Popen(
            [*command, *(f"--{name}={value}" for name, value in options.items())],
            cwd=folder,
            env=env,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        if not answers(f"{self.url}/api?token={TOKEN}", self._process):
            self.stop()
            raise RuntimeError(f"JupyterLab did not start:\n{(folder / 'server.log').read_text()}")

    def write(self, name: str, cells: list[str]) -> None:
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        made = [
            {"cell_type": "code", "id": f"c{i}", "source": text, "metadata": {}, "outputs": [], "execution_count": None}
            for i, text in enumerate(cells)
        ]
        notebook = {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
        (self.folder / name).write_text(json.dumps(notebook))

    def stop(self) -> None:
        """Ends the server; its kernels end themselves when it is gone."""
        stop(self._process)
        self.log.close()


class LabNotebook:
    """One notebook open in a page of its own."""

    def __init__(self, browser: Browser, server: LabServer, name: str, width: int = 1400, height: int = 1000) -> None:
        self._context = browser.new_context(viewport={"width": width, "height": height})
        be_patient(self._context)
        self.page: Page = self._context.new_page()
        self.page.goto(f"{server.url}/lab/tree/{name}?token={TOKEN}&reset")
        self.page.wait_for_function("window.jupyterapp !== undefined")
        expect(self.page.locator(".jp-NotebookPanel .jp-Cell").first).to_be_visible()
        self.page.evaluate("window.jupyterapp.shell.currentWidget.sessionContext.ready")
        self.page.wait_for_function("window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel")
        self.execute("application:toggle-left-area")

    def execute(self, command: str, arguments: dict[str, object] | None = None) -> None:
        """Runs a JupyterLab command without waiting for what it starts."""
        self.page.evaluate("([c, a]) => { window.jupyterapp.commands.execute(c, a) }", [command, arguments or {}])

    def run_all(self) -> None:
        self.execute("notebook:run-all-cells")

    def run(self, cell: int) -> None:
        """Runs cell number `cell`, counted from 0, without waiting for it."""
        self.page.evaluate("n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n }", cell)
        self.execute("notebook:run-cell")

    def theme(self, dark: bool) -> None:
        name = "JupyterLab Dark" if dark else "JupyterLab Light"
        self.page.evaluate("n => window.jupyterapp.commands.execute('apputils:change-theme', { theme: n })", name)
        self.page.wait_for_function("d => document.body.dataset.jpThemeLight === d", arg=str(not dark).lower())

    def close(self) -> None:
        self._context.close()
