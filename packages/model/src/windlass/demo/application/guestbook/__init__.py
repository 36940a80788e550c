"""A guestbook: counts visitors and lets them sign."""

VERSION = "1.0"
