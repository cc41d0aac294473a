"""loopctl: an agent-loop engine whose runs can be stopped at any instant, cleanly."""
