"""Kinds of exercises: answers, functions and objects in Python, kernels, host code with its kernels."""

from .answers import AnswerExercise, Asked
from .functions import CaseGroup, FunctionExercise, ScriptExercise, Step, same_value
from .kernels import CudaExercise, HostExercise, Run
from .objects import ObjectExercise, Story

__all__ = [
    "AnswerExercise",
    "Asked",
    "CaseGroup",
    "CudaExercise",
    "FunctionExercise",
    "HostExercise",
    "ObjectExercise",
    "Run",
    "ScriptExercise",
    "Step",
    "Story",
    "same_value",
]
