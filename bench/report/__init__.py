"""The report of how well a machine keeps tenants of one GPU apart (docs/howto/report.md)."""
