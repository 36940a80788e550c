"""Small clients, one for each kind of database: they log in, ask the least there is to ask, and hang up."""
