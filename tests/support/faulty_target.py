"""A fuzz target with a crash, a hang, an exception and a wrong number among good cases: what a search has to find."""

import os
import random

from sglab_fuzz.target import Finding


class Faulty:
    """The third line of a case says what happens."""

    name = "faulty"
    unit = "cases"

    def make(self, rng: random.Random, number: int) -> str:
        kind = {3: "crash", 5: "hang", 7: "exception", 9: "mismatch"}.get(number, "good")
        return f"one\ntwo\n{kind}\nthree\n"

    def run(self, text: str) -> int:
        if "crash" in text:
            os.abort()
        while "hang" in text:
            pass
        if "exception" in text:
            raise KeyError("key")
        if "mismatch" in text:
            raise Finding("mismatch: 3 is not 4")
        return 1


def target(device: str) -> Faulty:
    return Faulty()
