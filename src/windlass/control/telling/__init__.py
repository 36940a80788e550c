"""Who hears of a change: the audit, webhooks, streams, logs."""
