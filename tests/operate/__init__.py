"""Commands of an operator on the machine itself: settings, doctor, backup and restore."""
