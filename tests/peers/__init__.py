"""Real peers on loopback that tests talk to."""
