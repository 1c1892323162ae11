"""Which worker runs which tests, where several share them."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

ALONE = (
    "tests/fuzz/test_search.py",
    "tests/kernels/test_compiles.py",
    "tests/notebooks/test_notebooks.py",
)
"""Files whose tests take long and share nothing: each goes to whoever is free."""


class ByFile(LoadScopeScheduling):
    """A file's tests go to one worker: what it records or compiles once is made once.

    xdist's own groups do nothing with pytest 9: they are written into an attribute that items no longer have.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in ALONE:
            return nodeid
        return "jupyterlab" if file.endswith("_in_jupyterlab.py") else file  # one server is enough
