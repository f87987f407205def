"""The support agent of an outdoor shop."""
