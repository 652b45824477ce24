"""Framing: decompressed bytes to events with their exact byte offsets."""
