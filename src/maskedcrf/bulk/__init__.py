"""Bulk tagging: many files on Ray Data."""
