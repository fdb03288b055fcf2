"""Scores + membership + claim -> a verdict and the estimates beside it. No torch here."""
