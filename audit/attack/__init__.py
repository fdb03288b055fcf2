"""Attacks on a finished model: feed it rightly, ask it, measure, name who is at risk; with shadow models or without."""
