"""Judges: scoring sibling rollouts relative to each other by asking a language model (RULER)."""
