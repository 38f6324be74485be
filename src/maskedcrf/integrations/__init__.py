"""Taggers in the form of other libraries: Hugging Face, spaCy."""
