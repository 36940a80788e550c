"""What an operator does on the machine itself: settings, a look at what works, backup and restore."""
