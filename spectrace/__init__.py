"""Times every speculative decode cycle of a running SGLang server, without making it wait."""

__version__ = "0.1.0"
