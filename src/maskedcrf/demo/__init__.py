"""The demo: softmax, CRF and masked CRF on the built-in corpus, each at its own best rate, and what that shows."""

from maskedcrf.demo.trials import Demo as Demo
from maskedcrf.demo.trials import run_demo as run_demo
