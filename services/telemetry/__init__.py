"""What a service tells of itself: metrics for Prometheus, spans for an OpenTelemetry collector where one is named."""
