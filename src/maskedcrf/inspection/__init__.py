"""What is wrong with a model, or with its labels: one pass over labelled sentences, and a page of what it found."""
