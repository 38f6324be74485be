"""Training: settings, rates, the loop, checkpoints, seeds."""
