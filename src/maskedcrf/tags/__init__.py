"""Tag schemes, constraints and segments: the rules, on numpy alone."""
