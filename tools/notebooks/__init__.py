"""Notebooks as texts for review, and as slides: python -m tools.notebooks sync | check | take | slides"""
