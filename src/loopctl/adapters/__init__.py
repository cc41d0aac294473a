"""Protocols of other programs, a package each: it translates that protocol's stop to our signal and back."""
