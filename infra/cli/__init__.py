"""The `logflume` command."""
