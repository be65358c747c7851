"""What spectrace measures as time series: counted from Cycles, for Prometheus and OTLP alike."""
