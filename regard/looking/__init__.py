"""What is seen through the door, and in anyone's model: `look`."""

from regard.looking.looks import Seen, aside, look, show, watched

__all__ = ["Seen", "aside", "look", "show", "watched"]
