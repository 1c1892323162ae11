"""One cluster of a recorded launch, as columns: its waits, states, operations and pipelines."""
