"""Measurements against peers, in one run; each refuses to time what is wrong."""
