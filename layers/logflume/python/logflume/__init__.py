"""Logflume's shared library: log objects to batches, batches to documents. No Lambda event shapes, no CDK."""
