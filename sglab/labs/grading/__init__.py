"""Grading of many submissions: found, judged in parallel, resumed, and shown."""

from .grade import Grade, grade_all
from .statistics import item_statistics
from .submissions import Submission, find_submissions

__all__ = ["Grade", "Submission", "find_submissions", "grade_all", "item_statistics"]
