"""What attention does, seen and changed in anyone's model: `look` and `edit`."""

from regard.looking.edits import edit
from regard.looking.looks import Seen, look
from regard.looking.module_paths import as_module_call
from regard.looking.observers import (
    apply_edits,
    is_edited,
    is_observed,
    keep_batch_rows,
    pause_observers,
    show_call,
)

__all__ = ["Seen", "apply_edits", "as_module_call", "edit", "is_edited", "look", "pause_observers"]
__all__ += ["is_observed", "keep_batch_rows", "show_call"]
