"""Tests that others can run: whether an engine of theirs is right."""
