"""The recursions as Triton kernels, for CUDA devices: `launch` has the functions."""
