"""Imported by the cache's host side, of which the CPU path calls nothing."""

from . import __getattr__

__all__ = ["__getattr__"]
