"""A true screen for every terminal session, from bytes alone.

The layer is pure: bytes in, a picture out. It knows no file descriptor, no event loop, no clock and
no session, never answers the program in the terminal, and promises:

- **Any bytes at all** are a valid input. Feeding never raises, never hangs, and never grows beyond
  bounds that depend on the size of the screen alone.
- **Chunks do not matter.** A stream split anywhere gives the same screen as the stream fed whole.
- **The picture is the one xterm would show** (ECMA-48, DEC STD 070 and xterm's "ctlseqs" page);
  where terminals differ, the choice is written beside the code that makes it.
- **Repainting is complete**: what ``Screen.repaint`` returns brings a fresh terminal of the same
  size to the same state, down to an escape sequence that is only half there.

Bytes go one way through the modules:

========== =========================================================================
parser     bytes to tokens: text, controls, escape and control sequences, strings
control    which sequence calls which operation
emulator   modes, character sets, saved cursors, the alternate screen, resizing
canvas     drawing text at the cursor
grid       erasing, scrolling and moving about; pyte's screen, corrected
page       the rows of one screen, and where they go when it is resized
cells      cells, rows, and the compact lines of the scrollback
style      colours and attributes (SGR)
width      columns of a character
snapshot   what a person sees, as data; text, HTML and ANSI of it
repaint    a screen as escape sequences
skim       what of a flood need not be drawn
settings   what stays set of output that is left out
screen     the face of it all: ``Screen``
========== =========================================================================
"""

from s0d.terminal.screen import Screen
from s0d.terminal.settings import Settings
from s0d.terminal.snapshot import Cursor, Modes, Run, Snapshot

__all__ = ["Cursor", "Modes", "Run", "Screen", "Settings", "Snapshot"]
