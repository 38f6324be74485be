"""Sentences in and out: readers, writers, and the one record they all speak of."""
