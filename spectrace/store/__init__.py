"""Keeps the cycles of all runs on disk, bounded in time and size, and gives them back."""
