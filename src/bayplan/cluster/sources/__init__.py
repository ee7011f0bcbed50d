"""Where values of telemetry policies come from: Prometheus and the custom metrics API, polled beside all requests."""
