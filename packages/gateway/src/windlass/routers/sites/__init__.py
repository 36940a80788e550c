"""Static sites: the files of a release as a router serves them, put in place once and never changed."""
