"""Tests of the audit: it records every change with its author and origin, and no record can be changed
unnoticed."""
