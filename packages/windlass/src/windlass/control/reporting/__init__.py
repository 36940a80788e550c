"""Reports of changes: the audit, webhooks, streams, logs."""
