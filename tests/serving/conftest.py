"""Serving needs torch."""

import pytest

pytest.importorskip("torch")
