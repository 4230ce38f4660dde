"""Carries statements out: sessions, the log of statements, looks at rows, upgrades."""
