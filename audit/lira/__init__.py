"""Shadow-model attacks: train the shadows, attack, measure, write."""
