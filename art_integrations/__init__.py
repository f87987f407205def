"""One folder per foreign framework; each imports only art_core."""
