"""Trainers that are right, and trainers that are wrong in one realistic way. The check knows nothing of them."""
