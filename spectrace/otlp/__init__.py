"""Cycles as OTLP spans and back, and what a receiver answers over HTTP."""
