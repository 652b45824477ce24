"""HTTP: logs that are sent instead of dropped; requests to batches to acknowledged answers."""
