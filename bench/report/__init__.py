"""The report: every experiment is run, its figures are kept as JSON, and REPORT.md is made from these alone."""
