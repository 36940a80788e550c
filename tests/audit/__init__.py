"""Who did what, from where, and that nobody can change the record of it unseen."""
