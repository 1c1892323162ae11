"""Draws and attaches the figures; see attach.py."""

from tools.figures.attach import main

main()
