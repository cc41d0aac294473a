"""Other protocols: each package translates one protocol's stop to our signal, and back."""

__all__: list[str] = []
