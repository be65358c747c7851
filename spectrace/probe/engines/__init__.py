"""One table per engine: which functions bound which phase, and where the counts are found."""
