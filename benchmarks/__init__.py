"""Measurements side by side: each figure is a ratio of things measured in one run, shown with the quality reached."""
