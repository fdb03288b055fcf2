"""Bound against empirical: a grid of trainings, each audited in black and in white box, beside what theory allows."""
