"""Entities hidden with a miss rate that was promised and can be checked."""
