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
from hostile import HOSTILE, LINKS, MANIFESTS

from sglab.labs.coursework import lab, labs
from sglab.labs.exercises.answers import AnswerExercise
from sglab.labs.grading.submissions import MANIFEST
from sglab.labs.lab import Lab

DEFAULT = ("01", "02", "05", "06", "07")


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


def hostile_files(one: Lab, name: str, submissions: Path) -> dict[str, str]:
    """What a hostile student hands in; of links nothing yet."""
    if name in LINKS:
        return {}
    if name in MANIFESTS:
        return {MANIFEST: MANIFESTS[name]}
    text = HOSTILE[name].replace("{folder}", str(submissions)).replace("{root}", str(selftest.ROOT.parent))
    return {each.file: text for each in one.exercises}


def link(place: Path, one: Lab) -> None:
    """Links to the model solution in the place of files, and to another's folder in the place of a lab."""
    for name in one.files:
        (place / name).symlink_to(selftest.ROOT / one.folder / name)
    other = next(each for each in labs() if each.id != one.id)
    place.with_name(other.folder).symlink_to(selftest.ROOT / other.folder)


def simulate(folder: Path, students: int, hostile: int, chosen: list[str], seed: int) -> dict[str, str]:
    """Writes FOLDER/submissions and FOLDER/expected.json; returns what kind of submission each student's is."""
    random = Random(seed)
    submissions = folder / "submissions"
    kinds: dict[str, str] = {}
    every = sorted([*HOSTILE, *MANIFESTS, *LINKS])
    names = random.sample(every, min(hostile, len(every)))
    python = [name for name in chosen if not lab(name).needs] or chosen  # hostile code needs a lab that runs code
    for number in range(students):
        hostile_one = number < len(names)
        one = lab(python[number % len(python)] if hostile_one else chosen[number % len(chosen)])
        student = f"student{number:02d}"
        if hostile_one:
            files = hostile_files(one, names[number], submissions.resolve())
            kinds[student] = f"hostile {names[number]}"
        else:
            kinds[student], files = honest(one, student, random)
        write(submissions / student / one.folder, files)
        if kinds[student].removeprefix("hostile ") in LINKS:
            link(submissions / student / one.folder, one)
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
