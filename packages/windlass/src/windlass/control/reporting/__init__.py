"""Reports of changes: the audit log, webhooks, event streams and service logs."""
