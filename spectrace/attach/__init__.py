"""Finds the ranks of a server and gets the probe in and out."""
