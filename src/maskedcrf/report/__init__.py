"""Pictures of the lattice and self-contained HTML pages."""
