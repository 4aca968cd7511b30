"""Telemetry of a service: metrics for Prometheus, spans for an OpenTelemetry collector if one is configured."""
