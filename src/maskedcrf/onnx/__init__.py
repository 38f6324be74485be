"""One-file export: the graph with the Viterbi inside, and a tagger that needs no torch."""
