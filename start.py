#!/usr/bin/env python3
"""Sets sglab up in .venv of this checkout, then opens the workbench or runs its tests.

python3 start.py lab [--no-browser] [--port N]   install, then JupyterLab on the first notebook
python3 start.py test [pytest options]           install, then the test suite
python3 start.py install                         install only

Needs Python 3.10 or newer and the standard library; everything else comes from the Python package index.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
TORCH = "torch==2.13.0"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
EXTRAS = "torch,kernels,lab,test"
FIRST_NOTEBOOK = "notebooks/00_start_here.ipynb"


def say(text: str) -> None:
    print(f"[sglab] {text}", flush=True)


def stop(text: str) -> None:
    sys.exit(f"[sglab] Cannot go on: {text}")


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
    pip(TORCH, *options)


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
    return env


def build_inputs() -> str:
    """A fingerprint of everything an installed sglab is built from: when it is unchanged, nothing is rebuilt."""
    files = [ROOT / "pyproject.toml", ROOT / "CMakeLists.txt", *sorted((ROOT / "csrc").rglob("*"))]
    digest = hashlib.sha256(platform.python_version().encode())
    for file in files:
        if file.is_file():
            digest.update(file.relative_to(ROOT).as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


def install() -> None:
    if sys.version_info < (3, 10):  # noqa: UP036  (this file may be started by any Python)
        stop(f"Python 3.10 or newer is needed, this is {platform.python_version()}.")
    make_environment()
    stamp, wanted = VENV / "sglab-built-from", build_inputs()
    if stamp.exists() and stamp.read_text() == wanted:
        say("already installed")
        return
    install_torch()
    say("building the compiled core and installing sglab (a minute or two)")
    pip("--editable", f".[{EXTRAS}]", env=compiler_environment())
    silence_announcements()
    stamp.write_text(wanted)


def silence_announcements() -> None:
    """JupyterLab would ask every new user about its newsletter, over the first notebook."""
    extension = "@jupyterlab/apputils-extension:announcements"
    command = [str(PYTHON), "-m", "jupyter", "labextension", "disable", "--level=sys_prefix", extension]
    subprocess.run(command, capture_output=True)


def lab(options: list[str]) -> None:
    say("opening JupyterLab; stop it with Ctrl-C")
    # Small messages at once: steps of the widgets are 40 ms quicker.
    prompt = "--ServerApp.kernel_websocket_connection_class=sglab.widgets.jupyter_connection.PromptConnection"
    command = [str(PYTHON), "-m", "jupyterlab", f"--LabApp.default_url=/lab/tree/{FIRST_NOTEBOOK}", prompt, *options]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    os.chdir(ROOT)
    try:
        code = subprocess.call(command)
    except KeyboardInterrupt:
        code = 0
    sys.exit(code)


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
    workers = ["-n", str(min(os.cpu_count() or 1, 8)), "--dist", "loadgroup"] if not options else []
    sys.exit(subprocess.call([str(PYTHON), "-m", "pytest", *workers, *options], cwd=ROOT, env=env))


def main() -> None:
    command, options = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("", [])
    if command not in {"lab", "test", "install"}:
        sys.exit((__doc__ or "").strip())
    install()
    if command == "lab":
        lab(options)
    if command == "test":
        test(options)


if __name__ == "__main__":
    main()
