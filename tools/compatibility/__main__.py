"""Makes the compatibility table; see the package."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from tools.compatibility.families import FAMILIES, AbsentError
from tools.compatibility.measure import measured
from tools.compatibility.table import PAGE, forget_others, keep, kept, key, page


def main() -> None:
    options = _options()
    right = {key(row) for row in kept() if row.result == "right"}
    if options.check:
        sys.exit(0 if page(kept()) == PAGE.read_text() else f"{PAGE.name} is out of date: run {__package__} --write")
    for name in () if options.write else options.family or FAMILIES:
        try:
            family = FAMILIES[name]()
        except AbsentError as error:
            print(f"{name}: absent: {error}")
            continue
        forget_others(family.name, {(family.name, case.kernel, case.arch) for case in family.cases})
        for case in family.cases:
            if options.only not in case.kernel:
                continue
            if options.list:
                print(f"{family.name} | {case.kernel} | {case.arch}")
                continue
            if options.new and (family.name, case.kernel, case.arch) in right:
                continue
            row = measured(family.name, family.version, case, options.limit)
            if options.busy:
                row = replace(row, seconds=0.0)
            print(
                f"{row.family} | {row.kernel} | {row.result} {row.message} | {row.findings} | {row.rate / 1e6:.1f} M/s",
                flush=True,
            )
            keep(row)
    PAGE.write_text(page(kept()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; may be given several times")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--new", action="store_true", help="leave out what is right already")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one run of a kernel (300)")
    parser.add_argument("--list", action="store_true", help="only print which kernels there are")
    parser.add_argument("--busy", action="store_true", help="leave rates blank: the machine has other work")
    parser.add_argument("--write", action="store_true", help="run nothing, write the page from the rows kept")
    parser.add_argument("--check", action="store_true", help="run nothing, say whether the page is up to date")
    return parser.parse_args()


if __name__ == "__main__":
    main()
