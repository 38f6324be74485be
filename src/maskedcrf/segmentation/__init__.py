"""Which segments to answer, given how probable each is; numpy, and numba where it is installed."""
