"""Reads the rings of a server's ranks and puts the ranks of a cycle together."""
