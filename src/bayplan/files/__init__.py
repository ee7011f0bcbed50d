"""Trees of files, on disk and in archives: the only place that opens them."""
