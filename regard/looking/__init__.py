"""What is seen through the door, and changed on its way, in anyone's model: `look` and `edit`."""

from regard.looking.edits import edit
from regard.looking.looks import Seen, look
from regard.looking.paths import named
from regard.looking.watcher import altered, aside, edited, keep_batch_rows, show, watched

__all__ = ["Seen", "altered", "aside", "edit", "edited", "look", "named"]
__all__ += ["keep_batch_rows", "show", "watched"]
