"""Real kernels with all that a launch needs: sources, PTX of nvcc and Triton, arguments, a check in float64."""
