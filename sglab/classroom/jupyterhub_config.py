"""What `jupyterhub --config` reads; the class's folder is named by the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sglab.classroom.configure import configure
from sglab.classroom.settings import VARIABLE, ClassSettings

c: Any = get_config()  # type: ignore[name-defined]  # noqa: F821  # JupyterHub gives it to this file
configure(c, ClassSettings.read(Path(os.environ[VARIABLE])))
