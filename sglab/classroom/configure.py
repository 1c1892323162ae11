"""JupyterHub's configuration for a class, from its settings."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlsplit

from .authenticator import RosterAuthenticator
from .settings import VARIABLE, ClassSettings
from .spawner import SeatSpawner

DASHBOARD = "dashboard"
INSTRUCTORS = "instructors"
_SEAT = (
    "--ServerApp.kernel_websocket_connection_class=sglab.widgets.jupyter_connection.PromptConnection",
    "--LabApp.expose_app_in_browser=False",
)


def configure(c: Any, settings: ClassSettings) -> None:
    """Fills JupyterHub's configuration object `c`."""
    folder, address = settings.place, urlsplit(settings.bind)
    port = address.port or (443 if address.scheme == "https" else 80)
    c.JupyterHub.bind_url = settings.bind
    c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{port + 81}"
    c.JupyterHub.ssl_cert, c.JupyterHub.ssl_key = settings.certificate, settings.key
    c.ConfigurableHTTPProxy.command = settings.proxy
    c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{port + 82}"
    c.ConfigurableHTTPProxy.pid_file = str(folder.hub / "proxy.pid")
    c.JupyterHub.db_url = f"sqlite:///{folder.hub / 'hub.sqlite'}"
    c.JupyterHub.cookie_secret_file = str(folder.hub / "cookie_secret")
    c.JupyterHub.cleanup_servers = True
    c.JupyterHub.concurrent_spawn_limit = 0  # a class comes all at once: none is turned away, starting takes longer

    c.JupyterHub.authenticator_class = RosterAuthenticator
    c.RosterAuthenticator.passwords = str(folder.passwords)
    c.RosterAuthenticator.allowed_users = {*settings.students, *settings.instructors}
    c.RosterAuthenticator.admin_users = set(settings.instructors)
    c.RosterAuthenticator.delete_invalid_users = True

    c.JupyterHub.spawner_class = SeatSpawner
    c.SeatSpawner.class_folder = str(folder.path)
    c.SeatSpawner.first_uid = settings.first_uid
    c.SeatSpawner.seat_memory = settings.limits.memory or 0
    c.SeatSpawner.seat_cpus = settings.limits.cpus or 0.0
    c.SeatSpawner.seat_processes = settings.limits.processes
    c.SeatSpawner.cmd = [sys.executable, "-m", "sglab.classroom.seat"]
    c.SeatSpawner.args = [*_SEAT, *_idle_kernels(settings.idle), *_as_root(settings.first_uid)]
    c.SeatSpawner.default_url = "/lab/tree/notebooks/00_start_here.ipynb"
    c.SeatSpawner.start_timeout = 600  # twenty at once on two processors that have other work, too
    c.SeatSpawner.http_timeout = 600

    c.JupyterHub.load_groups = {INSTRUCTORS: {"users": settings.instructors}}
    c.JupyterHub.services = [_dashboard(settings, port), *_culler(settings.idle), *_lti(settings, port)]
    c.JupyterHub.load_roles = [
        {"name": INSTRUCTORS, "groups": [INSTRUCTORS], "scopes": [f"access:services!service={DASHBOARD}"]},
        {"name": DASHBOARD, "services": [DASHBOARD], "scopes": ["list:users", "read:servers", "access:servers"]},
        {
            "name": "culler",
            "services": ["culler"] if settings.idle else [],
            "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"],
        },
    ]


def _dashboard(settings: ClassSettings, port: int) -> dict[str, Any]:
    return {
        "name": DASHBOARD,
        "url": f"http://127.0.0.1:{port + 83}",
        "command": [sys.executable, "-m", "sglab.classroom.dashboard"],
        "environment": {VARIABLE: settings.folder, "SGLAB_HUB": f"http://127.0.0.1:{port}"},
        "oauth_no_confirm": True,
    }


def _culler(idle: int) -> list[dict[str, Any]]:
    if not idle:
        return []
    options = [f"--timeout={idle}", f"--cull-every={min(300, max(10, idle // 4))}"]
    return [{"name": "culler", "command": [sys.executable, "-m", "jupyterhub_idle_culler", *options]}]


def _lti(settings: ClassSettings, port: int) -> list[dict[str, Any]]:
    """Platforms open it without a login of the hub's: their tokens say who comes."""
    if not settings.lti:
        return []
    command = [sys.executable, "-m", "sglab.classroom.lti"]
    environment = {VARIABLE: settings.folder}
    return [{"name": "lti", "url": f"http://127.0.0.1:{port + 84}", "command": command, "environment": environment}]


def _idle_kernels(idle: int) -> list[str]:
    """An unused kernel holds memory, even while its student works in another notebook."""
    if not idle:
        return []
    return [f"--MappingKernelManager.cull_idle_timeout={idle}", "--MappingKernelManager.cull_interval=60"]


def _as_root(first_uid: int) -> list[str]:
    import os

    return ["--allow-root"] if not first_uid and os.geteuid() == 0 else []
