"""Brings services to the state that their records require, one step at a time."""
