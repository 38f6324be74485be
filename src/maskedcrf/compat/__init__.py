"""Other libraries' faces on our layer: change the import, keep the code."""
