"""Checks: what `logflume doctor` looks at, a module for each part of a deployment."""
