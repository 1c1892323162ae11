"""Where the sources of an instruction are found, and what is said where they are not."""

from __future__ import annotations

import linecache
import os
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from sglab.compilers.source import SourceFinder, short_name
from sglab.gpu.places import places_of


def test_sources_are_found_and_their_absence_is_explained(tmp_path: Path) -> None:
    shipped = SourceFinder().find("csrc/kernels/ptx/barrier.cuh")
    assert shipped.text is not None
    assert shipped.note == ""
    cell = "/tmp/ipykernel_123/4567.py"
    linecache.cache[cell] = (7, None, ["x = 1\n"], cell)
    assert SourceFinder().find("/tmp/ipykernel_99/4567.py").text == "x = 1\n"  # an earlier kernel compiled it
    assert SourceFinder().find("/tmp/ipykernel_99/4568.py").text is None
    (tmp_path / "mine.cu").write_text("// mine\n")
    assert SourceFinder().find("mine.cu").text is None
    assert "source_paths" in SourceFinder().find("mine.cu").note
    assert SourceFinder([tmp_path]).find("elsewhere/mine.cu").text == "// mine\n"
    changed = SourceFinder([tmp_path], {"mine.cu": "0" * 64}).find("mine.cu")
    assert "has changed since" in changed.note


def test_ptx_from_elsewhere_opens_no_files_of_this_machine(tmp_path: Path) -> None:
    private = tmp_path / "private" / "keys.txt"
    private.parent.mkdir()
    private.write_text("secret")
    link = tmp_path / "open" / "link.cu"
    link.parent.mkdir()
    link.symlink_to(private)
    pipe = tmp_path / "open" / "pipe.cu"
    os.mkfifo(pipe)
    stranger = SourceFinder([link.parent])
    for path in (str(private), str(link), "../private/keys.txt", str(pipe), "/dev/zero", "/etc/passwd"):
        assert stranger.find(path).text is None, path
    assert "source_paths=[" in stranger.find(str(private)).note
    assert SourceFinder([private.parent]).find(str(private)).text == "secret"
    assert SourceFinder(trusted=True).find(str(private)).text == "secret"


def test_a_cells_file_is_called_by_the_cells_number(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = InteractiveShell.instance()
    try:
        shell.compile._filename_map["/tmp/ipykernel_7/123.py"] = 3
        assert short_name("/tmp/ipykernel_7/123.py") == "In[3]"
        monkeypatch.setitem(linecache.cache, "/tmp/ipykernel_7/123.py", (1, None, ["x"], "/tmp/ipykernel_7/123.py"))
        assert short_name("/tmp/ipykernel_6/123.py") == "In[3]"  # an earlier kernel compiled it
        chain = [("/tmp/ipykernel_7/123.py", 8), ("/tmp/ipykernel_7/123.py", 20)]
        assert places_of(chain) == ["In[3]:8", "called from In[3]:20"]
    finally:
        InteractiveShell.clear_instance()
    assert short_name("/tmp/ipykernel_7/123.py") == "123.py"
    assert short_name("csrc/kernels/mla_decode.cu") == "mla_decode.cu"
