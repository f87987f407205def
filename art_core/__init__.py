"""art_core: train the agent you already have."""
