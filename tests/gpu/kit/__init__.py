"""The checks of tests/gpu/run. Each module has check(report)."""
