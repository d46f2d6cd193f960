// How each kind of input is given: a Svelte file each. All of them write the text one would type.

import type { Component } from "svelte";
import type { Input } from "../lib/types";
import Bits from "./Bits.svelte";
import Points from "./Points.svelte";
import Words from "./Words.svelte";

export interface InputProps {
  input: Input;
  text: string;
  /** The text has changed; `ready` where it may run at once (a click), and not on every letter. */
  change: (text: string, ready: boolean) => void;
  /** Whether the model is at work: what is dragged meanwhile waits for its answer. */
  busy?: boolean;
}

export const INPUTS: Record<Input["kind"], Component<InputProps>> = {
  text: Words,
  bits: Bits,
  points: Points,
  numbers: Points,
};
