"""Tokens to vectors: words, characters, transformers and ELMo side by side, an LSTM on top."""
