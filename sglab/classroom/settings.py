"""What a class is started with; `sglab hub` writes it beside the hub's database, JupyterHub's
configuration reads it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .folders import FIRST_UID, ClassFolder
from .limits import SeatLimits

FILE = "class.json"
VARIABLE = "SGLAB_CLASS"
"""Names the class's folder to JupyterHub's configuration and to the dashboard."""


@dataclass(frozen=True)
class ClassSettings:
    """A class as it runs.

    Attributes:
        folder: of the class.
        students, instructors: their names.
        first_uid: of the seats; 0: all run as the hub's user.
        limits: of a seat.
        idle: seconds after which an unused seat is ended; 0: never.
        bind: address that people open.
        proxy: command of configurable-http-proxy.
        emails: addresses by name, of those whose roster's line has one.
        lti: file of the platforms that send students and take their scores; empty: none.
        certificate, key: files for HTTPS; empty: HTTP, for this machine or behind a server that does HTTPS.
    """

    folder: str
    students: list[str]
    instructors: list[str]
    first_uid: int = FIRST_UID
    limits: SeatLimits = field(default_factory=SeatLimits)
    idle: int = 3600
    bind: str = "http://127.0.0.1:8000"
    proxy: list[str] = field(default_factory=lambda: ["configurable-http-proxy"])
    emails: dict[str, str] = field(default_factory=dict)
    lti: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def place(self) -> ClassFolder:
        return ClassFolder(Path(self.folder), self.first_uid > 0, self.first_uid or FIRST_UID)

    def write(self) -> Path:
        file = self.place.hub / FILE
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return file

    @classmethod
    def read(cls, folder: Path) -> ClassSettings:
        fields = json.loads((folder / "hub" / FILE).read_text())
        return cls(**{**fields, "limits": SeatLimits(**fields["limits"])})
