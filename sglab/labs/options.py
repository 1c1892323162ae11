"""The options of `sglab labs`; what they run is in `command`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lab import Lab


def add_labs_options(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="labs_command", required=True, metavar="what")
    commands.add_parser("list", help="the labs, and how far you are").add_argument(*_DIR[0], **_DIR[1])

    start = _student(commands.add_parser("start", help="copy a lab's starter to your folder"), "?")
    start.add_argument("--student", help="your name as the class knows it; default: your login")
    check = _student(commands.add_parser("check", help="judge what you have, as often as you like"), "*")
    check.add_argument("--exercise", action="append", default=[], help="only this one")
    check.add_argument("--timeline", type=Path, metavar="FOLDER", help="write a page with each kernel's timeline")
    hint = _student(commands.add_parser("hint", help="the next hint of an exercise; hints cost points"), None)
    hint.add_argument("exercise", nargs="?", help="without one: list them, and what the next hint costs")
    hint.add_argument("--yes", action="store_true", help="do not ask before taking points")
    submit = _student(commands.add_parser("submit", help="hand in"), "*")
    to = Path(os.environ.get("SGLAB_SUBMISSIONS", "submissions"))
    submit.add_argument("--to", type=Path, default=to, help="default: %(default)s")

    grade = commands.add_parser("grade", help="grade a class's submissions")
    grade.add_argument("submissions", type=Path, help="folder with student/lab in it")
    grade.add_argument("--out", type=Path, default=Path("grades.csv"), help="default: %(default)s")
    grade.add_argument(
        "--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="at a time; default: %(default)s"
    )
    grade.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="grade on Dask's workers: tcp://HOST:8786, or 'local' for --jobs processes of this machine",
    )
    grade.add_argument("--reports", type=Path, metavar="FOLDER", help="an HTML page per student, with timelines")
    grade.add_argument("--statistics", type=Path, metavar="FILE", help="item statistics as CSV")
    grade.add_argument("--leaderboard", type=Path, metavar="FILE", help="ranked labs as CSV")
    grade.add_argument("--store", type=Path, help="keep the grades: a folder, or a file that ends in .sqlite")
    grade.add_argument("--secret", type=Path, help="file with the text that seeds the inputs; default: beside --out")
    grade.add_argument("--again", action="store_true", help="grade what was graded before, too")

    export = commands.add_parser("export", help="records of a store as a table; labs for other graders")
    export.add_argument("store", type=Path, nargs="?", help="of csv and json: a folder, or a file that ends in .sqlite")
    export.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    export.add_argument(
        "--format",
        choices=("csv", "json", "nbgrader", "otter"),
        default="csv",
        help="nbgrader, otter: the labs themselves, as assignments of that grader; default: %(default)s",
    )
    export.add_argument(
        "--labs", nargs="+", type=_lab, default=[], metavar="LAB", help="such as 01 05; all if not given"
    )
    export.add_argument("--out", type=Path, metavar="FOLDER", help="where nbgrader's or Otter's files go")
    rubric = commands.add_parser("rubric", help="a lab's criteria, known wrong ideas and hints")
    rubric.add_argument("lab", type=_lab, help="such as 03")


_DIR: Any = (
    ("--dir",),
    {
        "type": Path,
        "default": Path(os.environ.get("SGLAB_LABS_DIR", "my_labs")),  # a hub says where, for the dashboard
        "help": "your folder of labs; default: %(default)s",
    },
)


def _student(parser: argparse.ArgumentParser, count: str | None) -> argparse.ArgumentParser:
    options: dict[str, Any] = {"type": _lab, "metavar": "lab", "help": "such as 03; all that were started if not given"}
    if count == "*":
        parser.add_argument("labs", nargs="*", default=[], **options)
    else:
        parser.add_argument("labs", nargs=1, **{**options, "help": "such as 03"})
    parser.add_argument(*_DIR[0], **_DIR[1])
    return parser


def _lab(name: str) -> Lab:
    from .coursework import lab  # only when a lab is named: the labs need numpy and more

    try:
        return lab(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
