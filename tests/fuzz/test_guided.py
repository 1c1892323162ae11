"""The guided search of the front end: what it begins with, how it reads libFuzzer's words, and that it finds things."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sglab import _core
from sglab_fuzz import findings, process
from sglab_fuzz.guided import build, seeds
from sglab_fuzz.guided.search import GuidedSearch, ending

FAULTY = Path(__file__).parents[1] / "support" / "faulty_guided.cpp"


def test_seeds_are_texts_that_the_front_end_reads() -> None:
    texts = seeds.texts()
    rows = {pattern for _, pattern, _ in _core.instruction_forms()}
    assert len(texts) > len(rows)
    assert all(len(text.encode()) <= seeds.MOST_LETTERS for text in texts)
    read = 0
    for text in texts[: len(rows)]:  # one per row, all of whose statements are right
        read += not _core.Module(text).kernel("k").unsupported
    assert read == len(rows)


def test_words_are_single_lines_that_differ(tmp_path: Path) -> None:
    starts, lists = seeds.write(tmp_path)
    assert len(list(starts.iterdir())) > 1000
    for name in ("statements", "lines", "words"):
        entries = (lists / f"{name}.txt").read_text().splitlines()
        assert len(entries) > 300, name
        assert all(entry.strip() for entry in entries)
    assert len(seeds.words()) == len(set(seeds.words()))


ASAN = """==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x60 at pc 0x55 bp 0x7f sp 0x7f
    #0 0x55 in sglab::emu::Parser::body() /home/somebody/csrc/machine/front/body.cpp:70:5
SUMMARY: AddressSanitizer: heap-buffer-overflow /home/somebody/csrc/machine/front/body.cpp:70:5 in sglab::emu::Parser
"""
UBSAN = """/home/somebody/csrc/isa/types.cpp:31:12: runtime error: shift exponent 64 is too large
SUMMARY: UndefinedBehaviorSanitizer: undefined-behavior /home/somebody/csrc/isa/types.cpp:31:12 in
"""


@pytest.mark.parametrize(
    ("log", "kind", "signature"),
    [
        (ASAN, "crash", "AddressSanitizer heap-buffer-overflow at body.cpp:70"),
        (UBSAN, "crash", "UBSan at types.cpp:31"),
        ("SUMMARY: sglab_fuzz: hang\n==1== ERROR: libFuzzer: deadly signal\n", "hang", "sglab_fuzz hang"),
        ("==1== ERROR: libFuzzer: deadly signal\nSUMMARY: libFuzzer: deadly signal\n", "crash", "libFuzzer deadly"),
        ("SUMMARY: libFuzzer: out-of-memory\n", "memory", "libFuzzer out-of-memory"),
        ("killed\n", "crash", "crash"),
    ],
)
def test_how_a_text_failed_is_read_from_the_output(log: str, kind: str, signature: str) -> None:
    found = ending(log)
    assert (found["kind"], found["signature"]) == (kind, signature)


def test_without_clang_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"needs clang\+\+ 14 .* clang\+\+ was not found"):
        build.build(1, sanitized=True)


def test_other_targets_are_not_guided() -> None:
    asked = [sys.executable, "-m", "sglab_fuzz", "engine", "--guided"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=process.ROOT)
    assert done.returncode != 0
    assert "only the target front is guided" in done.stderr


@pytest.mark.skipif(build.missing() is not None, reason="needs clang with libFuzzer")
def test_a_crash_is_found_minimised_and_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By libFuzzer itself, on a target that aborts where a text has a statement of tensor memory."""
    target = tmp_path / "faulty"
    subprocess.run(["clang++", "-std=c++20", "-O1", "-fsanitize=fuzzer", FAULTY, "-o", target], check=True)
    monkeypatch.setattr(build, "build", lambda jobs, sanitized: target)
    monkeypatch.setattr("sglab_fuzz.guided.search.FOLDER", tmp_path)
    result = GuidedSearch(7, 30, keep=tmp_path / "kept", corpus=tmp_path / "corpus", most=1).run()
    (found,) = result.found
    assert found["kind"] == "crash" and found["confirmed"]
    (line,) = found["text"].splitlines()
    assert "tcgen05.alloc" in line
    (path,) = (tmp_path / "kept").iterdir()
    assert findings.read(path) == ("front", found["text"])
    assert result.units > 100
