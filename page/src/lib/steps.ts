// What the steps of a machine and of a pointer are called: an arrow stands before what was said.

import { visible } from "./types";

/** Whether an answer was given at a step. */
export const asked = (label: string): boolean => label.startsWith("→");

/** A label as it is shown: the blank behind its arrow is none that anybody has to see. */
export const shown = (label: string): string => visible(label.replace(/^→ /, "→\u00a0"));
