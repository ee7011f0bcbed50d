"""The scheduler side: HTTP, the API server, metrics sources. Thin shells around what decides."""
