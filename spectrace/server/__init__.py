"""Serves the page, its API and live stream, and receives OTLP,."""
