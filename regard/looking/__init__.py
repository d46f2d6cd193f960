"""What is seen through the door, and in anyone's model: `look`."""

from regard.looking.looks import Seen, look, watched, watching

__all__ = ["Seen", "look", "watched", "watching"]
