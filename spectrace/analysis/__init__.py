"""Pure functions from Cycles to figures."""
