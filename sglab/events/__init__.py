"""The event log of a launch, and everything that is read from it: roles, barriers, tiles, memories, modelled time."""
