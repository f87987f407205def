"""Weights and forward passes, shared by sampling and training."""
