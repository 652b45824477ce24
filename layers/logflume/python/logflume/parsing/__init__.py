"""Parsing: an event's bytes to the JSON members that its document holds."""
