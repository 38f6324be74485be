"""The distribution over legal paths: reference, kernels, dispatch and the layer."""
