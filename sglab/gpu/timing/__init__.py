"""Modelled time: an event log replayed on a model of a GPU. Nothing here is measured."""

from sglab.gpu.timing.costs import STALLS, UNITS
from sglab.gpu.timing.figures import FIGURES, Figure, Figures, figures_of
from sglab.gpu.timing.timed import Spans, TimedLog, timed

__all__ = ["FIGURES", "STALLS", "UNITS", "Figure", "Figures", "Spans", "TimedLog", "figures_of", "timed"]
