"""Modelled time: an event log replayed on a model of a GPU. Nothing here is measured."""

from sglab.events.timing.costs import STALLS, UNITS
from sglab.events.timing.figures import FIGURES, Figure, Figures, figures_of
from sglab.events.timing.timed import Spans, TimedLog, timed

__all__ = ["FIGURES", "STALLS", "UNITS", "Figure", "Figures", "Spans", "TimedLog", "figures_of", "timed"]
