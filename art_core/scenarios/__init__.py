"""Scenarios made from the tools themselves, and their split into training, validation and test."""
